// The table of functions, and the one symbol through which clients find it.
#include "buffer.h"
#include "client.h"
#include "compile.h"
#include "device.h"
#include "error.h"
#include "event.h"
#include "executable.h"
#include "ffi_extension.h"
#include "layouts_extension.h"
#include "loaded_executable.h"
#include "memory_extension.h"
#include "plugin.h"
#include "topology.h"
#include "transfer.h"
#include "transfer_manager.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace xlacpu {
namespace {

// No slot is null: what does not exist here answers UNIMPLEMENTED with the
// reason. This is the list of what is absent.
#define XLACPU_ABSENT(name, why)                                  \
  api.PJRT_##name = [](PJRT_##name##_Args*) {                     \
    return Unimplemented("PJRT_" #name, why);                     \
  }
constexpr char kNoReceive[] =
    "XLA:CPU has no receive callbacks, so that no such stream is handed out";

void InstallAbsent(PJRT_Api& api) {
  XLACPU_ABSENT(CopyToDeviceStream_Destroy, kNoReceive);
  XLACPU_ABSENT(CopyToDeviceStream_AddChunk, kNoReceive);
  XLACPU_ABSENT(CopyToDeviceStream_TotalBytes, kNoReceive);
  XLACPU_ABSENT(CopyToDeviceStream_GranuleSize, kNoReceive);
  XLACPU_ABSENT(CopyToDeviceStream_CurrentBytes, kNoReceive);
  XLACPU_ABSENT(Buffer_DonateWithControlDependency,
                "XLA:CPU does not give away buffers that wait for their caller");
  XLACPU_ABSENT(Client_UpdateGlobalProcessInfo,
                "XLA:CPU does not restart processes of a running group");
}
#undef XLACPU_ABSENT

PJRT_Api MakeApi() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.extension_start =
      LayoutsExtension(FfiExtension(MemoryExtension(nullptr)));
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  InstallAbsent(api);
  InstallError(api);
  InstallPlugin(api);
  InstallEvent(api);
  InstallClient(api);
  InstallDevice(api);
  InstallTopology(api);
  InstallCompile(api);
  InstallBuffer(api);
  InstallTransfer(api);
  InstallTransferManager(api);
  InstallExecutable(api);
  InstallLoadedExecutable(api);
  return api;
}

}  // namespace
}  // namespace xlacpu

// The table is made at the first call, not when the library is loaded: loading
// runs no code of this plugin.
extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = xlacpu::MakeApi();
  return &api;
}
