#include "memory_extension.h"

#include <algorithm>
#include <cstddef>

#include "device.h"
#include "error.h"
#include "xla/pjrt/c/pjrt_c_api_memory_descriptions_extension.h"

namespace xlacpu {
namespace {

// A PJRT_MemoryDescription* is XLA's own description of a memory; nothing needs
// to be kept beside it.
PJRT_Error* Memories(PJRT_DeviceDescription_MemoryDescriptions_Args* args) {
  using Args = PJRT_DeviceDescription_MemoryDescriptions_Args;
  XLACPU_CHECK_ARGS(Args, default_memory_index);
  XLACPU_OBJECT(description, Args, device_description);
  const auto& memories = description->memories;
  args->memory_descriptions =
      reinterpret_cast<const PJRT_MemoryDescription* const*>(memories.data());
  args->num_memory_descriptions = memories.size();
  args->default_memory_index = static_cast<size_t>(-1);
  auto preferred = description->xla->default_memory_space();
  if (!preferred.ok()) return nullptr;
  auto it = std::find(memories.begin(), memories.end(), *preferred);
  if (it != memories.end()) args->default_memory_index = it - memories.begin();
  return nullptr;
}

PJRT_Error* Kind(PJRT_MemoryDescription_Kind_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_MemoryDescription_Kind_Args, kind_id);
  const auto* memory = reinterpret_cast<const xla::PjRtMemorySpaceDescription*>(
      args->memory_description);
  if (memory == nullptr) return InvalidArgument("memory_description is null");
  args->kind = memory->kind().data();
  args->kind_size = memory->kind().size();
  args->kind_id = memory->kind_id();
  return nullptr;
}

}  // namespace

PJRT_Extension_Base* MemoryExtension(PJRT_Extension_Base* next) {
  static PJRT_MemoryDescriptions_Extension extension{};
  extension.base.struct_size = PJRT_MemoryDescriptions_Extension_STRUCT_SIZE;
  extension.base.type = PJRT_Extension_Type_MemoryDescriptions;
  extension.base.next = next;
  extension.PJRT_DeviceDescription_MemoryDescriptions = Guard<Memories>::Call;
  extension.PJRT_MemoryDescription_Kind = Guard<Kind>::Call;
  return &extension.base;
}

}  // namespace xlacpu
