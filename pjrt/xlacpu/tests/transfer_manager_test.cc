// Buffers that exist before their data: transfer managers and aliases.
#include <cstring>

#include "harness.h"

namespace {

using harness::Buffer;
using harness::Client;
using harness::Event;
constexpr int kInvalidArgument = PJRT_Error_Code_INVALID_ARGUMENT;

class Manager {
 public:
  Manager(const Client& client, const std::vector<std::vector<int64_t>>& shapes) {
    std::vector<PJRT_ShapeSpec> specs;
    for (const auto& dims : shapes) {
      PJRT_ShapeSpec spec{};
      spec.struct_size = PJRT_ShapeSpec_STRUCT_SIZE;
      spec.dims = dims.data();
      spec.num_dims = dims.size();
      spec.element_type = PJRT_Buffer_Type_F32;
      specs.push_back(spec);
    }
    ARGS(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args, args);
    args.client = client.get();
    args.shape_specs = specs.data();
    args.num_shape_specs = specs.size();
    args.memory = client.Memories()[0];
    CALL(PJRT_Client_CreateBuffersForAsyncHostToDevice, args);
    handle_ = args.transfer_manager;
  }
  ~Manager() {
    ARGS(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args, args);
    args.transfer_manager = handle_;
    harness::Take(
        harness::api->PJRT_AsyncHostToDeviceTransferManager_Destroy(&args));
  }
  PJRT_AsyncHostToDeviceTransferManager* get() const { return handle_; }

  harness::Outcome Transfer(int index, const std::vector<float>& data,
                            int64_t offset, bool last) const {
    ARGS(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args, args);
    args.transfer_manager = handle_;
    args.buffer_index = index;
    args.data = data.data();
    args.offset = offset;
    args.transfer_size = data.size() * sizeof(float);
    args.is_last_transfer = last;
    harness::Outcome outcome = harness::Take(
        harness::api->PJRT_AsyncHostToDeviceTransferManager_TransferData(&args));
    if (outcome.code != 0) return outcome;
    return Event(args.done_with_h2d_transfer).Await();
  }

  Buffer Retrieve(int index) const {
    ARGS(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args, args);
    args.transfer_manager = handle_;
    args.buffer_index = index;
    CALL(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, args);
    return Buffer(args.buffer_out);
  }

 private:
  PJRT_AsyncHostToDeviceTransferManager* handle_;
};

TEST(manager_describes_its_buffers) {
  Client client;
  Manager manager(client, {{4}, {2, 3}});
  ARGS(PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args, count);
  count.transfer_manager = manager.get();
  CALL(PJRT_AsyncHostToDeviceTransferManager_BufferCount, count);
  EXPECT_EQ(count.buffer_count, size_t{2});
  ARGS(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args, size);
  size.transfer_manager = manager.get();
  size.buffer_index = 1;
  CALL(PJRT_AsyncHostToDeviceTransferManager_BufferSize, size);
  EXPECT_EQ(size.buffer_size, size_t{24});
  size.buffer_index = 2;
  EXPECT_ERROR(
      harness::Take(
          harness::api->PJRT_AsyncHostToDeviceTransferManager_BufferSize(&size)),
      kInvalidArgument, "there are 2 buffers");
  ARGS(PJRT_AsyncHostToDeviceTransferManager_Device_Args, device);
  device.transfer_manager = manager.get();
  CALL(PJRT_AsyncHostToDeviceTransferManager_Device, device);
  EXPECT(device.device_out == client.Devices()[0]);
}

TEST(buffer_is_filled_in_parts) {
  Client client;
  Manager manager(client, {{4}});
  Buffer buffer = manager.Retrieve(0);
  EXPECT_OK(manager.Transfer(0, {1, 2}, 0, /*last=*/false));
  EXPECT_OK(manager.Transfer(0, {3, 4}, 8, /*last=*/true));
  EXPECT_OK(buffer.Ready());
  EXPECT(buffer.Read<float>() == (std::vector<float>{1, 2, 3, 4}));
}

TEST(transfer_outside_of_the_buffer_is_an_error) {
  Client client;
  Manager manager(client, {{4}});
  EXPECT_ERROR(manager.Transfer(0, {1, 2}, 12, true), kInvalidArgument,
               "of a buffer of 16 bytes");
  EXPECT_ERROR(manager.Transfer(1, {1}, 0, true), kInvalidArgument,
               "buffer_index is 1");
  EXPECT_ERROR(manager.Transfer(0, {1}, -4, true), kInvalidArgument,
               "offset -4");
  EXPECT_OK(manager.Transfer(0, {1, 2, 3, 4}, 0, true));
}

TEST(whole_array_is_transferred_as_a_literal) {
  Client client;
  Manager manager(client, {{2, 2}});
  Buffer buffer = manager.Retrieve(0);
  const float data[] = {1, 2, 3, 4};
  const int64_t dims[] = {2, 2};
  ARGS(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args, args);
  args.transfer_manager = manager.get();
  args.data = data;
  args.shape_dims = dims;
  args.shape_num_dims = 2;
  args.shape_element_type = PJRT_Buffer_Type_F32;
  CALL(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral, args);
  EXPECT_OK(Event(args.done_with_h2d_transfer).Await());
  EXPECT_EQ(buffer.Read<float>()[3], 4.0f);
}

TEST(buffer_error_reaches_the_reader) {
  Client client;
  Manager manager(client, {{4}});
  Buffer buffer = manager.Retrieve(0);
  const std::string why = "the file ended early";
  ARGS(PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args, args);
  args.transfer_manager = manager.get();
  args.error_code = PJRT_Error_Code_DATA_LOSS;
  args.error_message = why.data();
  args.error_message_size = why.size();
  CALL(PJRT_AsyncHostToDeviceTransferManager_SetBufferError, args);
  EXPECT_ERROR(buffer.Ready(), PJRT_Error_Code_DATA_LOSS, why);
}

TEST(buffer_is_retrieved_once) {
  Client client;
  Manager manager(client, {{1}});
  Buffer buffer = manager.Retrieve(0);
  ARGS(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args, args);
  args.transfer_manager = manager.get();
  EXPECT_ERROR(
      harness::Take(
          harness::api->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(
              &args)),
      kInvalidArgument, "retrieved before");
  EXPECT_OK(manager.Transfer(0, {1}, 0, true));
}

TEST(alias_takes_the_place_of_a_later_buffer) {
  Client client;
  const int64_t dims[] = {3};
  ARGS(PJRT_Client_CreateAliasBuffer_Args, make);
  make.client = client.get();
  make.memory = client.Memories()[0];
  make.shape_dims = dims;
  make.shape_num_dims = 1;
  make.shape_element_type = PJRT_Buffer_Type_F32;
  CALL(PJRT_Client_CreateAliasBuffer, make);
  Buffer alias(make.alias_buffer);
  Buffer real = client.PutF32({1, 2, 3});
  ARGS(PJRT_Client_FulfillAliasBuffer_Args, fulfill);
  fulfill.client = client.get();
  fulfill.buffer = real.get();
  fulfill.fulfill_alias_buffer_cb = make.fulfill_alias_buffer_cb;
  CALL(PJRT_Client_FulfillAliasBuffer, fulfill);
  EXPECT_OK(alias.Ready());
  EXPECT(alias.Read<float>() == (std::vector<float>{1, 2, 3}));
}

TEST(alias_takes_an_error) {
  Client client;
  const int64_t dims[] = {3};
  ARGS(PJRT_Client_CreateAliasBuffer_Args, make);
  make.client = client.get();
  make.memory = client.Memories()[0];
  make.shape_dims = dims;
  make.shape_num_dims = 1;
  make.shape_element_type = PJRT_Buffer_Type_F32;
  CALL(PJRT_Client_CreateAliasBuffer, make);
  Buffer alias(make.alias_buffer);
  const std::string why = "it never came";
  ARGS(PJRT_Client_FulfillAliasBuffer_Args, fulfill);
  fulfill.client = client.get();
  fulfill.status_code = PJRT_Error_Code_CANCELLED;
  fulfill.error_message = why.data();
  fulfill.error_message_size = why.size();
  fulfill.fulfill_alias_buffer_cb = make.fulfill_alias_buffer_cb;
  harness::Take(harness::api->PJRT_Client_FulfillAliasBuffer(&fulfill));
  EXPECT_ERROR(alias.Ready(), PJRT_Error_Code_CANCELLED, why);
}

// XLA:CPU has no use for it: what can be read is accepted.
TEST(metadata_of_transfers_is_text) {
  Client client;
  Manager manager(client, {{1}});
  PJRT_NamedValue entry = harness::TextOption("origin", "a file");
  ARGS(PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args, args);
  args.transfer_manager = manager.get();
  args.transfer_metadata = &entry;
  args.num_metadata = 1;
  CALL(PJRT_AsyncHostToDeviceTransferManager_AddMetadata, args);
  entry = harness::IntOption("origin", 1);
  EXPECT_ERROR(
      harness::Take(
          harness::api->PJRT_AsyncHostToDeviceTransferManager_AddMetadata(&args)),
      kInvalidArgument, "origin is not a string");
  EXPECT_OK(manager.Transfer(0, {1}, 0, true));
}

}  // namespace
