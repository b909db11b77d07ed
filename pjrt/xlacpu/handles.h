// The objects behind the C API's opaque pointers, and the casts between both.
//
// The opaque names themselves (PJRT_Client, PJRT_Buffer, ...) are also names of
// C++ structs with exported members in libtensorflow_cc.so.2. Defining one of
// them here would merge the two definitions at load time. So every object of
// this plugin has a name of its own in namespace xlacpu. Nothing but these
// functions knows that the two are the same address.
#ifndef PJRT_XLACPU_HANDLES_H_
#define PJRT_XLACPU_HANDLES_H_

#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"

namespace xlacpu {

// Declares the object type and, for its handle, Unwrap (C to C++) and Wrap
// (C++ to C). The array form serves functions that hand out a list of handles;
// the list stays the property of the object that keeps it.
#define XLACPU_HANDLE(Object, Opaque)                                    \
  struct Object;                                                         \
  inline Object* Unwrap(Opaque* p) {                                     \
    return reinterpret_cast<Object*>(p);                                 \
  }                                                                      \
  inline const Object* Unwrap(const Opaque* p) {                         \
    return reinterpret_cast<const Object*>(p);                           \
  }                                                                      \
  inline Opaque* Wrap(Object* p) { return reinterpret_cast<Opaque*>(p); } \
  inline Opaque* const* Wrap(Object* const* p) {                         \
    return reinterpret_cast<Opaque* const*>(p);                          \
  }

XLACPU_HANDLE(Error, PJRT_Error)
XLACPU_HANDLE(Event, PJRT_Event)
XLACPU_HANDLE(Client, PJRT_Client)
XLACPU_HANDLE(Device, PJRT_Device)
XLACPU_HANDLE(DeviceDescription, PJRT_DeviceDescription)
XLACPU_HANDLE(Memory, PJRT_Memory)
XLACPU_HANDLE(Topology, PJRT_TopologyDescription)
XLACPU_HANDLE(Buffer, PJRT_Buffer)
XLACPU_HANDLE(AliasFulfiller, PJRT_FulfillAliasBufferCallback)
XLACPU_HANDLE(TransferManager, PJRT_AsyncHostToDeviceTransferManager)
XLACPU_HANDLE(TrackingEvent, PJRT_AsyncTrackingEvent)
XLACPU_HANDLE(Executable, PJRT_Executable)
XLACPU_HANDLE(LoadedExecutable, PJRT_LoadedExecutable)
XLACPU_HANDLE(ExecuteContext, PJRT_ExecuteContext)
XLACPU_HANDLE(MemoryLayout, PJRT_Layouts_MemoryLayout)

#undef XLACPU_HANDLE

}  // namespace xlacpu

#endif  // PJRT_XLACPU_HANDLES_H_
