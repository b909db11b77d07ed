// The table itself: every slot answers, and short or null arguments are errors.
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "harness.h"

namespace {

constexpr int kInvalidArgument = PJRT_Error_Code_INVALID_ARGUMENT;
using AnySlot = PJRT_Error* (*)(void*);

// The slots as an array: the table is a struct of nothing but function pointers
// after its head.
const AnySlot* Slots() {
  return reinterpret_cast<const AnySlot*>(&harness::api->PJRT_Error_Destroy);
}

size_t NumSlots() {
  return (harness::api->struct_size - offsetof(PJRT_Api, PJRT_Error_Destroy)) /
         sizeof(AnySlot);
}

TEST(table_has_no_null_slot) {
  for (size_t i = 0; i < NumSlots(); ++i) EXPECT(Slots()[i] != nullptr);
}

TEST(table_reports_the_version_of_its_header) {
  EXPECT_EQ(harness::api->pjrt_api_version.major_version, PJRT_API_MAJOR);
  EXPECT_EQ(harness::api->pjrt_api_version.minor_version, PJRT_API_MINOR);
  EXPECT_EQ(harness::api->struct_size, size_t{PJRT_Api_STRUCT_SIZE});
}

// Errors are made before anything is read from the rest of the struct. The
// first two slots return nothing and are left out.
TEST(every_function_refuses_null_and_short_arguments) {
  size_t absent = 0;
  for (size_t i = 2; i < NumSlots(); ++i) {
    struct {
      size_t struct_size = sizeof(size_t);
      char rest[1024] = {};
    } args;
    const harness::Outcome small = harness::Take(Slots()[i](&args));
    if (small.code == PJRT_Error_Code_UNIMPLEMENTED) {
      EXPECT(small.message.find("is not implemented") != std::string::npos);
      ++absent;
      continue;
    }
    EXPECT_EQ(small.code, kInvalidArgument);
    EXPECT_ERROR(harness::Take(Slots()[i](nullptr)), kInvalidArgument, "null");
  }
  std::printf("note %zu of %zu functions are implemented\n",
              NumSlots() - absent, NumSlots());
}

// With the whole struct zeroed, handles are null: an error, or for functions
// that destroy, nothing at all. Those that make something from nothing are left
// out.
TEST(every_function_survives_null_handles) {
  const void* makers[] = {
      reinterpret_cast<const void*>(harness::api->PJRT_Plugin_Initialize),
      reinterpret_cast<const void*>(harness::api->PJRT_Plugin_Attributes),
      reinterpret_cast<const void*>(harness::api->PJRT_Event_Create),
      reinterpret_cast<const void*>(harness::api->PJRT_Client_Create),
      reinterpret_cast<const void*>(harness::api->PJRT_ExecuteContext_Create),
      reinterpret_cast<const void*>(
          harness::api->PJRT_TopologyDescription_Deserialize)};
  for (size_t i = 2; i < NumSlots(); ++i) {
    bool maker = false;
    for (const void* m : makers) {
      maker |= m == reinterpret_cast<const void*>(Slots()[i]);
    }
    if (maker) continue;
    struct {
      size_t struct_size = 1024;
      char rest[1024] = {};
    } args;
    const harness::Outcome outcome = harness::Take(Slots()[i](&args));
    EXPECT(outcome.code == 0 || outcome.code == kInvalidArgument ||
           outcome.code == PJRT_Error_Code_UNIMPLEMENTED);
  }
}

TEST(initialize_accepts_this_process) {
  ARGS(PJRT_Plugin_Initialize_Args, args);
  CALL(PJRT_Plugin_Initialize, args);
}

TEST(attributes_name_the_stablehlo_versions) {
  ARGS(PJRT_Plugin_Attributes_Args, args);
  CALL(PJRT_Plugin_Attributes, args);
  bool found = false;
  for (size_t i = 0; i < args.num_attributes; ++i) {
    const PJRT_NamedValue& value = args.attributes[i];
    const std::string name(value.name, value.name_size);
    if (name != "stablehlo_current_version") continue;
    found = true;
    EXPECT_EQ(static_cast<int>(value.type), PJRT_NamedValue_kInt64List);
    EXPECT_EQ(value.value_size, size_t{3});
    EXPECT(value.int64_array_value[0] >= 1);
  }
  EXPECT(found);
}

TEST(extensions_form_a_list_of_known_types) {
  EXPECT(harness::FindExtension(PJRT_Extension_Type_Layouts) != nullptr);
  EXPECT(harness::FindExtension(PJRT_Extension_Type_FFI) != nullptr);
  EXPECT(harness::FindExtension(PJRT_Extension_Type_MemoryDescriptions) !=
         nullptr);
  EXPECT(harness::FindExtension(PJRT_Extension_Type_Gpu_Custom_Call) == nullptr);
}

// ----- vetting

harness::Outcome Vet(const char* flags) {
  auto vet = reinterpret_cast<int (*)(const char*, char*, size_t)>(
      harness::FindExport("XlaCpuPlugin_Vet"));
  EXPECT(vet != nullptr);
  char message[400] = "";
  const int code = vet(flags, message, sizeof message);
  return {code, message};
}

TEST(vet_accepts_known_flags) {
  EXPECT_OK(Vet(""));
  EXPECT_OK(Vet("  \n"));
  EXPECT_OK(Vet("--xla_cpu_multi_thread_eigen=false"));
  EXPECT_OK(Vet(" --xla_cpu_multi_thread_eigen \t--xla_dump_to='/tmp/a b' "
                "--xla_force_host_platform_device_count=2"));
  EXPECT_OK(Vet("--xla_dump_to=\"/tmp/a\\\"b\""));
  EXPECT_OK(Vet("--xla_fuel=pass=3"));
}

TEST(vet_names_the_flag_that_xla_does_not_know) {
  EXPECT_ERROR(Vet("--xla_no_such_flag=1"), kInvalidArgument,
               "unknown flag \"--xla_no_such_flag=1\"");
  EXPECT_ERROR(Vet("--xla_cpu_multi_thread_eigen=true --xla_nope"),
               kInvalidArgument, "unknown flag \"--xla_nope\"");
  EXPECT_ERROR(Vet("-xla_cpu_multi_thread_eigen=true"), kInvalidArgument,
               "unknown flag \"-xla_cpu_multi_thread_eigen=true\"");
}

TEST(vet_names_a_malformed_value) {
  EXPECT_ERROR(Vet("--xla_cpu_multi_thread_eigen=banana"), kInvalidArgument,
               "malformed value in \"--xla_cpu_multi_thread_eigen=banana\"");
  EXPECT_ERROR(Vet("--xla_force_host_platform_device_count=two"),
               kInvalidArgument, "malformed value");
  EXPECT_ERROR(Vet("--xla_step_marker_location=9"), kInvalidArgument,
               "malformed value");
}

TEST(vet_names_a_file_that_is_not_there) {
  EXPECT_ERROR(Vet("/no/such/file"), kInvalidArgument, "/no/such/file");
  EXPECT_ERROR(Vet("xla_cpu_multi_thread_eigen=true"), kInvalidArgument,
               "neither a list of flags");
}

}  // namespace
