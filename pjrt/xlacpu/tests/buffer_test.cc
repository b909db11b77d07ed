// Buffers: into device memory, between devices, back, and their references.
#include <cstring>
#include <numeric>

#include "harness.h"

namespace {

using harness::Buffer;
using harness::Client;
using harness::Event;
using harness::IntOption;
constexpr int kInvalidArgument = PJRT_Error_Code_INVALID_ARGUMENT;

PJRT_Client_BufferFromHostBuffer_Args HostArgs(const Client& client,
                                               const void* data,
                                               PJRT_Buffer_Type type,
                                               const std::vector<int64_t>& dims) {
  ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = client.get();
  args.data = data;
  args.type = type;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.device = client.Devices()[0];
  return args;
}

struct TypeCase {
  PJRT_Buffer_Type type;
  size_t bytes;  // for eight elements, as the host keeps them
};
constexpr TypeCase kTypes[] = {
    {PJRT_Buffer_Type_PRED, 8},       {PJRT_Buffer_Type_S8, 8},
    {PJRT_Buffer_Type_S16, 16},       {PJRT_Buffer_Type_S32, 32},
    {PJRT_Buffer_Type_S64, 64},       {PJRT_Buffer_Type_U8, 8},
    {PJRT_Buffer_Type_U16, 16},       {PJRT_Buffer_Type_U32, 32},
    {PJRT_Buffer_Type_U64, 64},       {PJRT_Buffer_Type_F16, 16},
    {PJRT_Buffer_Type_F32, 32},       {PJRT_Buffer_Type_F64, 64},
    {PJRT_Buffer_Type_BF16, 16},      {PJRT_Buffer_Type_C64, 64},
    {PJRT_Buffer_Type_C128, 128},     {PJRT_Buffer_Type_F8E5M2, 8},
    {PJRT_Buffer_Type_F8E4M3FN, 8},   {PJRT_Buffer_Type_F8E4M3B11FNUZ, 8},
    {PJRT_Buffer_Type_F8E5M2FNUZ, 8}, {PJRT_Buffer_Type_F8E4M3FNUZ, 8},
    {PJRT_Buffer_Type_S4, 8},         {PJRT_Buffer_Type_U4, 8},
    {PJRT_Buffer_Type_S2, 8},         {PJRT_Buffer_Type_U2, 8},
    {PJRT_Buffer_Type_F8E4M3, 8},     {PJRT_Buffer_Type_F8E3M4, 8},
    {PJRT_Buffer_Type_F8E8M0FNU, 8},  {PJRT_Buffer_Type_F4E2M1FN, 8},
};

TEST(buffer_round_trips_every_type) {
  Client client;
  for (const TypeCase& c : kTypes) {
    std::vector<unsigned char> data(c.bytes);
    for (size_t i = 0; i < data.size(); ++i) data[i] = i % 2;
    Buffer buffer = client.Put(data, c.type, {2, 4});
    ARGS(PJRT_Buffer_ElementType_Args, type);
    type.buffer = buffer.get();
    CALL(PJRT_Buffer_ElementType, type);
    EXPECT_EQ(static_cast<int>(type.type), static_cast<int>(c.type));
    EXPECT(buffer.Dims() == (std::vector<int64_t>{2, 4}));
    EXPECT(buffer.Read<unsigned char>() == data);
  }
}

TEST(buffer_may_be_a_scalar_or_empty) {
  Client client;
  Buffer scalar = client.Put(std::vector<float>{7}, PJRT_Buffer_Type_F32, {});
  EXPECT_EQ(scalar.Read<float>()[0], 7.0f);
  Buffer empty = client.Put(std::vector<float>{}, PJRT_Buffer_Type_F32, {3, 0});
  EXPECT_EQ(empty.Read<float>().size(), size_t{0});
  EXPECT(empty.Dims() == (std::vector<int64_t>{3, 0}));
}

TEST(buffer_of_a_wrong_type_or_shape_is_an_error) {
  Client client;
  float x = 0;
  auto args = HostArgs(client, &x, static_cast<PJRT_Buffer_Type>(77), {});
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_Client_BufferFromHostBuffer(&args)),
      kInvalidArgument, "unknown element type");
  const std::vector<int64_t> dims = {1};
  args = HostArgs(client, &x, PJRT_Buffer_Type_F32, dims);
  args.device = nullptr;
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_Client_BufferFromHostBuffer(&args)),
      kInvalidArgument, "neither a device nor a memory");
}

TEST(buffer_reads_strided_host_data) {
  Client client;
  // A 2 x 3 row-major matrix, handed over as its 3 x 2 transpose.
  const float data[] = {0, 1, 2, 3, 4, 5};
  const std::vector<int64_t> dims = {3, 2};
  const int64_t strides[] = {4, 12};
  auto args = HostArgs(client, data, PJRT_Buffer_Type_F32, dims);
  args.byte_strides = strides;
  args.num_byte_strides = 2;
  CALL(PJRT_Client_BufferFromHostBuffer, args);
  Event done(args.done_with_host_buffer);
  Buffer buffer(args.buffer);
  EXPECT(buffer.Read<float>() == (std::vector<float>{0, 3, 1, 4, 2, 5}));
  args.num_byte_strides = 1;
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_Client_BufferFromHostBuffer(&args)),
      kInvalidArgument, "num_byte_strides is 1");
}

TEST(buffer_keeps_the_layout_asked_for) {
  Client client;
  const float data[] = {0, 1, 2, 3, 4, 5};
  const std::vector<int64_t> dims = {2, 3};
  const int64_t column_major[] = {0, 1};
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = column_major;
  layout.tiled.minor_to_major_size = 2;
  auto args = HostArgs(client, data, PJRT_Buffer_Type_F32, dims);
  args.device_layout = &layout;
  CALL(PJRT_Client_BufferFromHostBuffer, args);
  Event done(args.done_with_host_buffer);
  Buffer buffer(args.buffer);
  ARGS(PJRT_Buffer_GetMemoryLayout_Args, got);
  got.buffer = buffer.get();
  CALL(PJRT_Buffer_GetMemoryLayout, got);
  EXPECT_EQ(got.layout.tiled.minor_to_major[0], int64_t{0});
  EXPECT_EQ(got.layout.tiled.minor_to_major[1], int64_t{1});
  // To the host in row-major order, by strides.
  const int64_t strides[] = {12, 4};
  PJRT_Buffer_MemoryLayout host{};
  host.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  host.type = PJRT_Buffer_MemoryLayout_Type_Strides;
  host.strides.byte_strides = strides;
  host.strides.num_byte_strides = 2;
  float back[6] = {};
  ARGS(PJRT_Buffer_ToHostBuffer_Args, to_host);
  to_host.src = buffer.get();
  to_host.host_layout = &host;
  to_host.dst = back;
  to_host.dst_size = sizeof back;
  CALL(PJRT_Buffer_ToHostBuffer, to_host);
  EXPECT_OK(Event(to_host.event).Await());
  EXPECT_EQ(std::memcmp(back, data, sizeof back), 0);
  const int64_t twice[] = {0, 0};
  layout.tiled.minor_to_major = twice;
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_Client_BufferFromHostBuffer(&args)),
      kInvalidArgument, "not a permutation");
}

// The buffer is the caller's own memory; the event tells when it is free again.
TEST(zero_copy_buffer_shares_the_hosts_memory) {
  Client client;
  alignas(64) static float data[16] = {1, 2};
  const std::vector<int64_t> dims = {16};
  auto args = HostArgs(client, data, PJRT_Buffer_Type_F32, dims);
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
  CALL(PJRT_Client_BufferFromHostBuffer, args);
  Event done(args.done_with_host_buffer);
  {
    Buffer buffer(args.buffer);
    EXPECT_EQ(buffer.Pointer(), reinterpret_cast<uintptr_t>(data));
    EXPECT(!done.IsReady());
  }
  EXPECT_OK(done.Await());
}

TEST(buffer_copies_between_devices) {
  Client client({IntOption("cpu_device_count", 2)});
  Buffer buffer = client.PutF32({1, 2, 3});
  ARGS(PJRT_Buffer_CopyToDevice_Args, args);
  args.buffer = buffer.get();
  args.dst_device = client.Devices()[1];
  CALL(PJRT_Buffer_CopyToDevice, args);
  Buffer copy(args.dst_buffer);
  EXPECT(copy.Read<float>() == buffer.Read<float>());
  EXPECT(copy.Pointer() != buffer.Pointer());
  ARGS(PJRT_Buffer_Device_Args, device);
  device.buffer = copy.get();
  CALL(PJRT_Buffer_Device, device);
  EXPECT(device.device == client.Devices()[1]);
  ARGS(PJRT_Buffer_Memory_Args, memory);
  memory.buffer = copy.get();
  CALL(PJRT_Buffer_Memory, memory);
  ARGS(PJRT_Buffer_CopyToMemory_Args, back);
  back.buffer = buffer.get();
  back.dst_memory = memory.memory;
  CALL(PJRT_Buffer_CopyToMemory, back);
  Buffer again(back.dst_buffer);
  EXPECT(again.Read<float>() == buffer.Read<float>());
}

TEST(raw_copies_take_a_part) {
  Client client;
  std::vector<int32_t> data(100);
  std::iota(data.begin(), data.end(), 0);
  Buffer buffer = client.Put(data, PJRT_Buffer_Type_S32, {100});
  int32_t part[3] = {};
  ARGS(PJRT_Buffer_CopyRawToHost_Args, args);
  args.buffer = buffer.get();
  args.dst = part;
  args.offset = 40;
  args.transfer_size = sizeof part;
  CALL(PJRT_Buffer_CopyRawToHost, args);
  EXPECT_OK(Event(args.event).Await());
  EXPECT_EQ(part[2], 12);
  args.offset = 396;
  harness::Outcome outcome =
      harness::Take(harness::api->PJRT_Buffer_CopyRawToHost(&args));
  if (outcome.code == 0) outcome = Event(args.event).Await();
  EXPECT_EQ(outcome.code, kInvalidArgument);
}

TEST(raw_copy_waits_for_its_destination) {
  Client client;
  Buffer buffer = client.PutF32({1, 2, 3});
  ARGS(PJRT_Buffer_CopyRawToHostFuture_Args, args);
  args.buffer = buffer.get();
  args.transfer_size = 12;
  CALL(PJRT_Buffer_CopyRawToHostFuture, args);
  Event done(args.event);
  float values[3] = {};
  PJRT_Buffer_CopyRawToHostFuture_Callback_Args ready{};
  ready.struct_size = PJRT_Buffer_CopyRawToHostFuture_Callback_Args_STRUCT_SIZE;
  ready.callback_data = args.callback_data;
  ready.dst = values;
  args.future_ready_callback(&ready);
  EXPECT_OK(done.Await());
  EXPECT_EQ(values[2], 3.0f);
}

TEST(read_into_too_little_room_is_an_error) {
  Client client;
  Buffer buffer = client.PutF32({1, 2, 3});
  float one = 0;
  EXPECT_ERROR(buffer.TryRead(&one, sizeof one), kInvalidArgument,
               "dst_size is 4, 12 bytes are needed");
}

TEST(error_buffer_fails_its_readers) {
  Client client;
  const std::string why = "never computed";
  const int64_t dims[] = {4};
  ARGS(PJRT_Client_CreateErrorBuffer_Args, args);
  args.client = client.get();
  args.error_code = PJRT_Error_Code_DATA_LOSS;
  args.error_message = why.data();
  args.error_message_size = why.size();
  args.shape_dims = dims;
  args.shape_num_dims = 1;
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.memory = client.Memories()[0];
  CALL(PJRT_Client_CreateErrorBuffer, args);
  Buffer buffer(args.buffer);
  EXPECT_ERROR(buffer.Ready(), PJRT_Error_Code_DATA_LOSS, why);
  float values[4];
  EXPECT_ERROR(buffer.TryRead(values, sizeof values), PJRT_Error_Code_DATA_LOSS,
               why);
}

TEST(uninitialized_buffer_has_its_shape) {
  Client client;
  const int64_t dims[] = {5, 2};
  ARGS(PJRT_Client_CreateUninitializedBuffer_Args, args);
  args.client = client.get();
  args.shape_dims = dims;
  args.shape_num_dims = 2;
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.device = client.Devices()[0];
  CALL(PJRT_Client_CreateUninitializedBuffer, args);
  Buffer buffer(args.buffer);
  EXPECT_EQ(buffer.Read<float>().size(), size_t{10});
  ARGS(PJRT_Buffer_OnDeviceSizeInBytes_Args, size);
  size.buffer = buffer.get();
  CALL(PJRT_Buffer_OnDeviceSizeInBytes, size);
  EXPECT_EQ(size.on_device_size_in_bytes, size_t{40});
}

TEST(view_tells_when_the_memory_is_free) {
  Client client;
  alignas(64) static float data[4] = {1, 2, 3, 4};
  ARGS(PJRT_Event_Create_Args, create);
  CALL(PJRT_Event_Create, create);
  Event freed(create.event);
  const int64_t dims[] = {4};
  ARGS(PJRT_Client_CreateViewOfDeviceBuffer_Args, args);
  args.client = client.get();
  args.device_buffer_ptr = data;
  args.dims = dims;
  args.num_dims = 1;
  args.element_type = PJRT_Buffer_Type_F32;
  args.memory = client.Memories()[0];
  args.on_delete_callback = [](void* pointer, void* event) {
    ARGS(PJRT_Event_Set_Args, set);
    set.event = static_cast<PJRT_Event*>(event);
    set.error_code = pointer == data ? PJRT_Error_Code_OK
                                     : PJRT_Error_Code_INTERNAL;
    harness::Take(harness::api->PJRT_Event_Set(&set));
  };
  args.on_delete_callback_arg = freed.get();
  CALL(PJRT_Client_CreateViewOfDeviceBuffer, args);
  {
    Buffer buffer(args.buffer);
    EXPECT_EQ(buffer.Read<float>()[3], 4.0f);
    EXPECT(!freed.IsReady());
  }
  EXPECT_OK(freed.Await());
}

TEST(external_references_are_counted) {
  Client client;
  Buffer buffer = client.PutF32({1});
  ARGS(PJRT_Buffer_IncreaseExternalReferenceCount_Args, more);
  more.buffer = buffer.get();
  CALL(PJRT_Buffer_IncreaseExternalReferenceCount, more);
  ARGS(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, pointer);
  pointer.buffer = buffer.get();
  CALL(PJRT_Buffer_OpaqueDeviceMemoryDataPointer, pointer);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer.device_memory_ptr),
            buffer.Pointer());
  ARGS(PJRT_Buffer_DecreaseExternalReferenceCount_Args, less);
  less.buffer = buffer.get();
  CALL(PJRT_Buffer_DecreaseExternalReferenceCount, less);
  EXPECT_ERROR(
      harness::Take(
          harness::api->PJRT_Buffer_DecreaseExternalReferenceCount(&less)),
      kInvalidArgument, "already zero");
}

TEST(deleted_buffer_answers_with_errors) {
  Client client({IntOption("cpu_device_count", 2)});
  Buffer buffer = client.PutF32({1, 2});
  ARGS(PJRT_Buffer_Delete_Args, args);
  args.buffer = buffer.get();
  CALL(PJRT_Buffer_Delete, args);
  CALL(PJRT_Buffer_Delete, args);  // twice is no error
  EXPECT(buffer.IsDeleted());
  float values[2];
  EXPECT_ERROR(buffer.TryRead(values, sizeof values), kInvalidArgument,
               "deleted");
  EXPECT_ERROR(buffer.Ready(), kInvalidArgument, "deleted");
  ARGS(PJRT_Buffer_CopyToDevice_Args, copy);
  copy.buffer = buffer.get();
  copy.dst_device = client.Devices()[1];
  EXPECT_ERROR(harness::Take(harness::api->PJRT_Buffer_CopyToDevice(&copy)),
               kInvalidArgument, "deleted");
  EXPECT(buffer.Dims() == (std::vector<int64_t>{2}));
}

TEST(buffer_describes_itself) {
  Client client;
  Buffer buffer = client.Put(std::vector<float>(6), PJRT_Buffer_Type_F32, {2, 3});
  ARGS(PJRT_Buffer_UnpaddedDimensions_Args, unpadded);
  unpadded.buffer = buffer.get();
  CALL(PJRT_Buffer_UnpaddedDimensions, unpadded);
  EXPECT_EQ(unpadded.num_dims, size_t{2});
  EXPECT_EQ(unpadded.unpadded_dims[1], int64_t{3});
  ARGS(PJRT_Buffer_DynamicDimensionIndices_Args, dynamic);
  dynamic.buffer = buffer.get();
  CALL(PJRT_Buffer_DynamicDimensionIndices, dynamic);
  EXPECT_EQ(dynamic.num_dynamic_dims, size_t{0});
  ARGS(PJRT_Buffer_IsOnCpu_Args, on_cpu);
  on_cpu.buffer = buffer.get();
  CALL(PJRT_Buffer_IsOnCpu, on_cpu);
  EXPECT(on_cpu.is_on_cpu);
}

}  // namespace
