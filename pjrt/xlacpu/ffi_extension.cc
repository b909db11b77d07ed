#include "ffi_extension.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "error.h"
#include "loaded_executable.h"
#include "xla/ffi/ffi_api.h"
#include "xla/ffi/type_registry.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

namespace xlacpu {
namespace {

using xla::ffi::TypeRegistry;

PJRT_Error* RegisterType(PJRT_FFI_Type_Register_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_FFI_Type_Register_Args, type_info);
  const std::string_view name(args->type_name, args->type_name_size);
  TypeRegistry::TypeInfo info;
  if (args->type_info != nullptr) info.deleter = args->type_info->deleter;
  if (args->type_id != 0) {
    return ToError(TypeRegistry::RegisterExternalTypeId(
        name, TypeRegistry::TypeId(args->type_id), info));
  }
  XLACPU_ASSIGN(TypeRegistry::TypeId id,
                TypeRegistry::AssignExternalTypeId(name, info));
  args->type_id = id.value();
  return nullptr;
}

PJRT_Error* AddUserData(PJRT_FFI_UserData_Add_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_FFI_UserData_Add_Args, user_data);
  XLACPU_OBJECT(context, PJRT_FFI_UserData_Add_Args, context);
  return ToError(context->xla.ffi_context().Insert(
      TypeRegistry::TypeId(args->user_data.type_id), args->user_data.data));
}

PJRT_Error* RegisterHandler(PJRT_FFI_Register_Handler_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_FFI_Register_Handler_Args, traits);
  if (args->handler == nullptr) return InvalidArgument("handler is null");
  // XLA's registry knows the CPU by the name of its stream executor platform.
  std::string platform(args->platform_name, args->platform_name_size);
  if (absl::EqualsIgnoreCase(platform, "cpu")) platform = "Host";
  return ToError(xla::ffi::TakeStatus(xla::ffi::Ffi::RegisterStaticHandler(
      xla::ffi::GetXlaFfiApi(),
      std::string(args->target_name, args->target_name_size), platform,
      reinterpret_cast<XLA_FFI_Handler*>(args->handler),
      static_cast<XLA_FFI_Handler_Traits>(args->traits))));
}

}  // namespace

PJRT_Extension_Base* FfiExtension(PJRT_Extension_Base* next) {
  static PJRT_FFI_Extension extension{};
  extension.base.struct_size = PJRT_FFI_Extension_STRUCT_SIZE;
  extension.base.type = PJRT_Extension_Type_FFI;
  extension.base.next = next;
  extension.type_register = Guard<RegisterType>::Call;
  extension.user_data_add = Guard<AddUserData>::Call;
  extension.register_handler = Guard<RegisterHandler>::Call;
  return &extension.base;
}

}  // namespace xlacpu
