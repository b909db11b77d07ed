#include "layouts_extension.h"

#include <utility>
#include <vector>

#include "buffer.h"
#include "client.h"
#include "error.h"
#include "executable.h"
#include "serialized.h"
#include "shapes.h"
#include "topology.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"

namespace xlacpu {
namespace {

PJRT_Layouts_MemoryLayout* NewLayout(
    std::shared_ptr<const xla::PjRtLayout> layout) {
  return Wrap(new MemoryLayout{std::move(layout)});
}

PJRT_Error* Destroy(PJRT_Layouts_MemoryLayout_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Layouts_MemoryLayout_Destroy_Args, layout);
  delete Unwrap(args->layout);
  return nullptr;
}

PJRT_Error* Serialize(PJRT_Layouts_MemoryLayout_Serialize_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Layouts_MemoryLayout_Serialize_Args,
                    serialized_layout_deleter);
  XLACPU_OBJECT(layout, PJRT_Layouts_MemoryLayout_Serialize_Args, layout);
  HandOut(layout->xla->Serialize(), &args->serialized_bytes,
          &args->serialized_bytes_size, &args->serialized_layout,
          &args->serialized_layout_deleter);
  return nullptr;
}

PJRT_Error* OfBuffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, layout);
  XLACPU_OBJECT(buffer, PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, buffer);
  args->layout = NewLayout(buffer->xla->layout());
  return nullptr;
}

PJRT_Error* OfClient(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, layout);
  XLACPU_OBJECT(client, PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, client);
  XLACPU_ASSIGN(xla::PrimitiveType type, ToPrimitiveType(args->type));
  XLACPU_ASSIGN(
      xla::Layout layout,
      client->xla->GetDefaultLayout(type, Dims(args->dims, args->num_dims)));
  args->layout =
      NewLayout(std::make_shared<xla::PjRtLayout>(std::move(layout)));
  return nullptr;
}

PJRT_Error* OfTopology(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args* args) {
  using Args = PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args;
  XLACPU_CHECK_ARGS(Args, layout);
  XLACPU_OBJECT(topology, Args, topology_description);
  XLACPU_ASSIGN(xla::PrimitiveType type, ToPrimitiveType(args->type));
  XLACPU_ASSIGN(
      xla::Layout layout,
      topology->xla->GetDefaultLayout(type, Dims(args->dims, args->num_dims)));
  args->layout =
      NewLayout(std::make_shared<xla::PjRtLayout>(std::move(layout)));
  return nullptr;
}

PJRT_Error* OfOutputs(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args* args) {
  using Args = PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args;
  XLACPU_CHECK_ARGS(Args, layouts);
  XLACPU_OBJECT(executable, Args, executable);
  std::lock_guard<std::mutex> lock(executable->mu);
  if (!executable->output_layouts.has_value()) {
    XLACPU_ASSIGN(auto layouts, executable->loaded
                                    ? executable->loaded->GetOutputLayouts()
                                    : executable->xla->GetOutputLayouts());
    executable->output_layouts.emplace();
    for (auto& layout : layouts) {
      executable->output_layouts->push_back(NewLayout(std::move(layout)));
    }
  }
  args->num_outputs = executable->output_layouts->size();
  args->layouts = executable->output_layouts->data();
  return nullptr;
}

}  // namespace

PJRT_Extension_Base* LayoutsExtension(PJRT_Extension_Base* next) {
  static PJRT_Layouts_Extension extension{};
  extension.base.struct_size = PJRT_Layouts_Extension_STRUCT_SIZE;
  extension.base.type = PJRT_Extension_Type_Layouts;
  extension.base.next = next;
  extension.PJRT_Layouts_MemoryLayout_Destroy = Guard<Destroy>::Call;
  extension.PJRT_Layouts_MemoryLayout_Serialize = Guard<Serialize>::Call;
  extension.PJRT_Layouts_PJRT_Client_GetDefaultLayout = Guard<OfClient>::Call;
  extension.PJRT_Layouts_PJRT_Buffer_MemoryLayout = Guard<OfBuffer>::Call;
  extension.PJRT_Layouts_PJRT_Topology_GetDefaultLayout =
      Guard<OfTopology>::Call;
  extension.PJRT_Layouts_PJRT_Executable_GetOutputLayouts =
      Guard<OfOutputs>::Call;
  return &extension.base;
}

}  // namespace xlacpu
