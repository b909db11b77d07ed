// The pool behind device memory: figures, bounds, reuse.
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "harness.h"

namespace {

using harness::AddProgram;
using harness::BoolOption;
using harness::Buffer;
using harness::Client;
using harness::IntOption;

constexpr int64_t kMiB = int64_t{1} << 20;

Buffer Block(const Client& client, int64_t bytes) {
  const int64_t dims[] = {bytes};
  ARGS(PJRT_Client_CreateUninitializedBuffer_Args, args);
  args.client = client.get();
  args.shape_dims = dims;
  args.shape_num_dims = 1;
  args.shape_element_type = PJRT_Buffer_Type_U8;
  args.device = client.Devices()[0];
  CALL(PJRT_Client_CreateUninitializedBuffer, args);
  return Buffer(args.buffer);
}

TEST(memory_in_use_follows_the_buffers) {
  Client client;
  EXPECT_EQ(client.MemoryStats().bytes_in_use, int64_t{0});
  {
    Buffer a = Block(client, 3 * kMiB), b = Block(client, 100);
    const auto stats = client.MemoryStats();
    EXPECT(stats.bytes_in_use >= 3 * kMiB + 100);
    EXPECT(stats.bytes_in_use <= 3 * kMiB * 9 / 8 + 4096);
    EXPECT_EQ(stats.num_allocs, int64_t{2});
    EXPECT_EQ(stats.largest_alloc_size, 3 * kMiB);
  }
  const auto stats = client.MemoryStats();
  EXPECT_EQ(stats.bytes_in_use, int64_t{0});
  EXPECT(stats.peak_bytes_in_use_is_set);
  EXPECT(stats.peak_bytes_in_use >= 3 * kMiB + 100);
  EXPECT(stats.bytes_limit_is_set && stats.bytes_limit > 0);
  EXPECT(!stats.bytes_reserved_is_set);
}

TEST(freed_block_is_kept_and_taken_again) {
  Client client;
  uintptr_t address = 0;
  {
    Buffer a = Block(client, 8 * kMiB);
    address = a.Pointer();
    EXPECT_EQ(address % (2 * kMiB), uintptr_t{0});
  }
  auto stats = client.MemoryStats();
  EXPECT_EQ(stats.largest_free_block_bytes, 8 * kMiB);
  EXPECT_EQ(stats.pool_bytes, 8 * kMiB);
  Buffer again = Block(client, 8 * kMiB);
  EXPECT_EQ(again.Pointer(), address);
  stats = client.MemoryStats();
  EXPECT_EQ(stats.largest_free_block_bytes, int64_t{0});
  EXPECT_EQ(stats.peak_pool_bytes, 8 * kMiB);
}

// Bytes of this process that the kernel may take without asking.
int64_t Offered() {
  std::ifstream figures("/proc/self/smaps_rollup");
  for (std::string word; figures >> word;) {
    int64_t kilobytes = 0;
    if (word == "LazyFree:" && figures >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

TEST(oldest_kept_blocks_are_offered_to_the_kernel) {
  // A sixty-fourth of the limit is not: two blocks.
  Client client({IntOption("cpu_memory_limit_bytes", 640 * kMiB)});
  const int64_t before = Offered();
  std::vector<Buffer> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(Block(client, 4 * kMiB));
    std::memset(reinterpret_cast<void*>(blocks.back().Pointer()), 1, 4 * kMiB);
  }
  const uintptr_t newest = blocks.back().Pointer();
  for (Buffer& block : blocks) Buffer(std::move(block));
  EXPECT_EQ(Offered() - before, 8 * kMiB);
  // A loop that has its block again at once offers nothing more.
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Block(client, 4 * kMiB).Pointer(), newest);
  }
  EXPECT_EQ(Offered() - before, 8 * kMiB);
}

TEST(kept_memory_is_bounded) {
  Client client({IntOption("cpu_pool_limit_bytes", 10 * kMiB)});
  {
    std::vector<Buffer> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(Block(client, 4 * kMiB));
  }
  auto stats = client.MemoryStats();
  EXPECT(stats.pool_bytes <= 10 * kMiB);
  EXPECT(stats.pool_bytes > 0);
  // Blocks of a new class push the old ones out.
  { Buffer other = Block(client, 9 * kMiB); }
  stats = client.MemoryStats();
  EXPECT(stats.largest_free_block_bytes >= 9 * kMiB);
  EXPECT(stats.pool_bytes <= 10 * kMiB);
  // A block that alone exceeds the bound is not kept.
  { Buffer huge = Block(client, 64 * kMiB); }
  EXPECT(client.MemoryStats().largest_free_block_bytes < 64 * kMiB);
}

TEST(limit_answers_with_figures) {
  Client client({IntOption("cpu_memory_limit_bytes", 16 * kMiB)});
  EXPECT_EQ(client.MemoryStats().bytes_limit, 16 * kMiB);
  Buffer a = Block(client, 10 * kMiB);
  const int64_t dims[] = {10 * kMiB};
  ARGS(PJRT_Client_CreateUninitializedBuffer_Args, args);
  args.client = client.get();
  args.shape_dims = dims;
  args.shape_num_dims = 1;
  args.shape_element_type = PJRT_Buffer_Type_U8;
  args.device = client.Devices()[0];
  EXPECT_ERROR(
      harness::Take(
          harness::api->PJRT_Client_CreateUninitializedBuffer(&args)),
      PJRT_Error_Code_RESOURCE_EXHAUSTED, "10485760 bytes asked for");
  // What failed is not counted, and smaller requests still succeed.
  EXPECT_EQ(client.MemoryStats().bytes_in_use, 10 * kMiB);
  Buffer b = Block(client, kMiB);
}

// Kept blocks of other sizes make room before a request fails.
TEST(limit_drops_kept_blocks_first) {
  Client client({IntOption("cpu_memory_limit_bytes", 32 * kMiB),
                 IntOption("cpu_pool_limit_bytes", 32 * kMiB)});
  { Buffer a = Block(client, 20 * kMiB); }
  EXPECT_EQ(client.MemoryStats().largest_free_block_bytes, 20 * kMiB);
  Buffer b = Block(client, 28 * kMiB);
  const auto stats = client.MemoryStats();
  EXPECT_EQ(stats.largest_free_block_bytes, int64_t{0});
  EXPECT(stats.peak_pool_bytes <= 32 * kMiB);
}

TEST(running_out_fails_the_run_and_nothing_else) {
  Client client({IntOption("cpu_memory_limit_bytes", 16 * kMiB)});
  const int64_t n = kMiB;  // 4 MiB each
  harness::Program program = client.Compile(AddProgram(n));
  Buffer a = client.PutF32(std::vector<float>(n, 1.0f));
  std::vector<Buffer> held = program.Run({&a, &a});
  harness::Outcome outcome;
  while (outcome.code == 0 && held.size() < 10) {
    outcome = program.TryRun({&a, &a}, held);
  }
  EXPECT_ERROR(outcome, PJRT_Error_Code_RESOURCE_EXHAUSTED, "in use of");
  held.clear();
  EXPECT_EQ(program.Run({&a, &a})[0].Read<float>()[7], 2.0f);
}

TEST(pool_can_be_turned_off) {
  Client client({BoolOption("cpu_huge_pages", false)});
  { Buffer a = Block(client, 8 * kMiB); }
  const auto stats = client.MemoryStats();
  EXPECT_EQ(stats.largest_free_block_bytes, int64_t{0});
  EXPECT_EQ(stats.pool_bytes, int64_t{0});
  EXPECT_EQ(stats.num_allocs, int64_t{1});
  EXPECT_EQ(stats.peak_bytes_in_use, 8 * kMiB);
}

TEST(request_beyond_all_memory_is_an_error) {
  Client client;
  const int64_t dims[] = {int64_t{1} << 50};
  ARGS(PJRT_Client_CreateUninitializedBuffer_Args, args);
  args.client = client.get();
  args.shape_dims = dims;
  args.shape_num_dims = 1;
  args.shape_element_type = PJRT_Buffer_Type_U8;
  args.device = client.Devices()[0];
  EXPECT_ERROR(
      harness::Take(
          harness::api->PJRT_Client_CreateUninitializedBuffer(&args)),
      PJRT_Error_Code_RESOURCE_EXHAUSTED, "out of memory");
}

TEST(devices_of_a_client_share_its_pool) {
  Client client({IntOption("cpu_device_count", 2)});
  Buffer a = Block(client, kMiB);
  EXPECT_EQ(client.MemoryStats(0).bytes_in_use,
            client.MemoryStats(1).bytes_in_use);
  Client other;
  EXPECT_EQ(other.MemoryStats().bytes_in_use, int64_t{0});
}

}  // namespace
