// Jobs of several processes: collectives over TCP, and what goes wrong.
//
// The processes are copies of this program that run one hidden case each; their
// key-value store is a folder of files.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "harness.h"

extern char** environ;

namespace {

using harness::Buffer;
using harness::BoolOption;
using harness::IntOption;
using harness::Outcome;
namespace fs = std::filesystem;

constexpr int kProcesses = 2, kLocal = 2, kReplicas = kProcesses * kLocal;

// ----- the store

std::string FileOf(std::string key) {
  for (char& c : key) {
    if (c == '/') c = '_';
  }
  return std::string(std::getenv("XLACPU_TEST_STORE")) + "/" + key;
}

PJRT_Error* Put(PJRT_KeyValuePutCallback_Args* args) {
  const std::string file = FileOf({args->key, args->key_size});
  const std::string draft = file + ".draft" + std::to_string(getpid());
  std::ofstream(draft).write(args->value, args->value_size);
  fs::rename(draft, file);
  return nullptr;
}

PJRT_Error* Get(PJRT_KeyValueGetCallback_Args* args) {
  const std::string file = FileOf({args->key, args->key_size});
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::milliseconds(args->timeout_in_ms);
  while (!fs::exists(file)) {
    if (std::chrono::steady_clock::now() > deadline) {
      const std::string why = "nobody has put it";
      return (*args->callback_error)(PJRT_Error_Code_DEADLINE_EXCEEDED,
                                     why.data(), why.size());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::ostringstream bytes;
  bytes << std::ifstream(file).rdbuf();
  const std::string value = bytes.str();
  args->value = new char[value.size()];
  args->value_size = value.size();
  value.copy(args->value, value.size());
  args->value_deleter_callback = [](char* p) { delete[] p; };
  return nullptr;
}

PJRT_Client_Create_Args JobArgs(const std::vector<PJRT_NamedValue>& options) {
  ARGS(PJRT_Client_Create_Args, args);
  args.create_options = options.data();
  args.num_options = options.size();
  args.kv_get_callback = Get;
  args.kv_put_callback = Put;
  return args;
}

// ----- one process of the job

class Member {
 public:
  explicit Member(int node, bool watched = false) : node_(node) {
    std::vector<PJRT_NamedValue> options = {
        IntOption("cpu_device_count", kLocal), IntOption("node_id", node),
        IntOption("num_nodes", kProcesses),
        BoolOption("cpu_watched_job", watched)};
    auto args = JobArgs(options);
    CALL(PJRT_Client_Create, args);
    client_ = args.client;
    ARGS(PJRT_Client_AddressableDevices_Args, devices);
    devices.client = client_;
    CALL(PJRT_Client_AddressableDevices, devices);
    EXPECT_EQ(devices.num_addressable_devices, size_t{kLocal});
    devices_.assign(devices.addressable_devices,
                    devices.addressable_devices + kLocal);
    ARGS(PJRT_Client_Devices_Args, all);
    all.client = client_;
    CALL(PJRT_Client_Devices, all);
    EXPECT_EQ(all.num_devices, size_t{kReplicas});
    ARGS(PJRT_Client_ProcessIndex_Args, index);
    index.client = client_;
    CALL(PJRT_Client_ProcessIndex, index);
    EXPECT_EQ(index.process_index, node);
  }
  ~Member() {
    ARGS(PJRT_Client_Destroy_Args, args);
    args.client = client_;
    harness::Take(harness::api->PJRT_Client_Destroy(&args));
  }

  // The replica that runs on a local device.
  int Replica(int local) const { return node_ * kLocal + local; }

  // Runs `body`, a function of one f32 array over all replicas, on
  // input(replica); `out` gets the results of the local ones.
  Outcome Run(const std::string& body, const std::string& in_type,
              const std::string& out_type,
              const std::function<std::vector<float>(int)>& input,
              const std::vector<int64_t>& dims,
              std::vector<std::vector<float>>& out) const {
    const std::string module =
        "module @m attributes {mhlo.num_replicas = 4 : i32} { func.func public "
        "@main(%a: " + in_type + ") -> " + out_type + " { " + body +
        " return %r : " + out_type + " } }";
    // CompileOptionsProto{executable_build_options{device_ordinal: -1,
    // num_replicas: 4, num_partitions: 1}}
    const std::string options(
        "\x1a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x04\x28\x01",
        17);
    ARGS(PJRT_Program, program);
    program.code = const_cast<char*>(module.data());
    program.code_size = module.size();
    program.format = "mlir";
    program.format_size = 4;
    ARGS(PJRT_Client_Compile_Args, compile);
    compile.client = client_;
    compile.program = &program;
    compile.compile_options = options.data();
    compile.compile_options_size = options.size();
    CALL(PJRT_Client_Compile, compile);
    harness::Program executable(compile.executable);

    std::vector<Buffer> arguments;
    for (int d = 0; d < kLocal; ++d) {
      const std::vector<float> data = input(Replica(d));
      ARGS(PJRT_Client_BufferFromHostBuffer_Args, put);
      put.client = client_;
      put.data = data.data();
      put.type = PJRT_Buffer_Type_F32;
      put.dims = dims.data();
      put.num_dims = dims.size();
      put.device = devices_[d];
      CALL(PJRT_Client_BufferFromHostBuffer, put);
      harness::Event done(put.done_with_host_buffer);
      arguments.emplace_back(put.buffer);
    }
    PJRT_Buffer* in[kLocal][1] = {{arguments[0].get()}, {arguments[1].get()}};
    PJRT_Buffer* const* in_lists[] = {in[0], in[1]};
    PJRT_Buffer* results[kLocal][1] = {};
    PJRT_Buffer** out_lists[] = {results[0], results[1]};
    ARGS(PJRT_LoadedExecutable_Execute_Args, args);
    args.executable = executable.get();
    args.argument_lists = in_lists;
    args.num_devices = kLocal;
    args.num_args = 1;
    args.output_lists = out_lists;
    Outcome outcome =
        harness::Take(harness::api->PJRT_LoadedExecutable_Execute(&args));
    if (outcome.code != 0) return outcome;
    for (int d = 0; d < kLocal; ++d) {
      Buffer result(results[d][0]);
      Outcome ready = result.Ready();
      if (ready.code != 0) {
        outcome = ready;
      } else {
        out.push_back(result.Read<float>());
      }
    }
    return outcome;
  }

 private:
  int node_;
  PJRT_Client* client_;
  std::vector<PJRT_Device*> devices_;
};

std::string Type(int64_t n) { return "tensor<" + std::to_string(n) + "xf32>"; }

std::string Reduction(const std::string& op, const std::string& name,
                      const std::string& attributes, const std::string& in,
                      const std::string& out) {
  return "%r = \"stablehlo." + name + "\"(%a) <{" + attributes +
         "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({ "
         "^bb0(%x: tensor<f32>, %y: tensor<f32>): %s = stablehlo." + op +
         " %x, %y : tensor<f32> stablehlo.return %s : tensor<f32> }) : (" + in +
         ") -> " + out;
}

// i + 100 * replica
std::vector<float> Ramp(int replica, int64_t n) {
  std::vector<float> data(n);
  std::iota(data.begin(), data.end(), 100.0f * replica);
  return data;
}

void CheckAllReduce(const Member& member, int64_t n) {
  std::vector<std::vector<float>> out;
  EXPECT_OK(member.Run(Reduction("add", "all_reduce", "", Type(n), Type(n)),
                       Type(n), Type(n), [&](int r) { return Ramp(r, n); }, {n},
                       out));
  for (const auto& values : out) {
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(values[i], 4.0f * i + 600.0f);
  }
  out.clear();
  EXPECT_OK(member.Run(Reduction("maximum", "all_reduce", "", Type(n), Type(n)),
                       Type(n), Type(n), [&](int r) { return Ramp(r, n); }, {n},
                       out));
  EXPECT_EQ(out[1][n - 1], 300.0f + n - 1);
}

void CheckGatherAndScatter(const Member& member) {
  const std::string groups =
      "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>";
  std::vector<std::vector<float>> out;
  EXPECT_OK(member.Run("%r = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 "
                       ": i64, " + groups + "}> : (" + Type(3) + ") -> " +
                           Type(12),
                       Type(3), Type(12), [](int r) { return Ramp(r, 3); }, {3},
                       out));
  for (const auto& values : out) {
    for (int i = 0; i < 12; ++i) EXPECT_EQ(values[i], 100.0f * (i / 3) + i % 3);
  }
  out.clear();
  EXPECT_OK(member.Run(
      Reduction("add", "reduce_scatter", "scatter_dimension = 0 : i64, ",
                Type(8), Type(2)),
      Type(8), Type(2), [](int r) { return Ramp(r, 8); }, {8}, out));
  for (int d = 0; d < kLocal; ++d) {
    const float first = 2.0f * member.Replica(d);
    EXPECT_EQ(out[d][0], 4 * first + 600);
    EXPECT_EQ(out[d][1], 4 * first + 604);
  }
}

void CheckExchanges(const Member& member) {
  std::vector<std::vector<float>> out;
  EXPECT_OK(member.Run(
      "%r = \"stablehlo.collective_permute\"(%a) <{source_target_pairs = "
      "dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>}> : (" + Type(3) +
          ") -> " + Type(3),
      Type(3), Type(3), [](int r) { return Ramp(r, 3); }, {3}, out));
  for (int d = 0; d < kLocal; ++d) {
    const int replica = member.Replica(d);
    EXPECT_EQ(out[d][1], replica == 0 ? 0.0f : 100.0f * (replica - 1) + 1);
  }
  out.clear();
  EXPECT_OK(member.Run(
      "%r = \"stablehlo.all_to_all\"(%a) <{split_dimension = 0 : i64, "
      "concat_dimension = 0 : i64, split_count = 4 : i64, replica_groups = "
      "dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (" + Type(8) + ") -> " +
          Type(8),
      Type(8), Type(8), [](int r) { return Ramp(r, 8); }, {8}, out));
  for (int d = 0; d < kLocal; ++d) {
    for (int i = 0; i < 8; ++i) {
      const float expected = 100.0f * (i / 2) + 2 * member.Replica(d) + i % 2;
      EXPECT_EQ(out[d][i], expected);
    }
  }
}

int NodeOfThisProcess() {
  const char* node = std::getenv("XLACPU_TEST_NODE");
  EXPECT(node != nullptr);
  return std::atoi(node);
}

HIDDEN_TEST(job_member) {
  Member member(NodeOfThisProcess());
  for (int again = 0; again < 3; ++again) {
    CheckAllReduce(member, 5);       // one round
    CheckAllReduce(member, 100003);  // in parts
    CheckGatherAndScatter(member);
    CheckExchanges(member);
  }
}

// Process 1 leaves at once; process 0 is told so by the collective.
HIDDEN_TEST(job_member_that_is_left) {
  const int node = NodeOfThisProcess();
  Member member(node, node == 1);
  if (node == 1) return;
  std::vector<std::vector<float>> out;
  EXPECT_ERROR(member.Run(Reduction("add", "all_reduce", "", Type(4), Type(4)),
                          Type(4), Type(4), [](int r) { return Ramp(r, 4); },
                          {4}, out),
               PJRT_Error_Code_UNAVAILABLE, "process 1 has gone");
}

// What the store has of a key, or gets later.
std::string Await(const std::string& key) {
  while (!fs::exists(FileOf(key))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::ostringstream bytes;
  bytes << std::ifstream(FileOf(key)).rdbuf();
  return bytes.str();
}

void Write(const std::string& key, const std::string& value) {
  ARGS(PJRT_KeyValuePutCallback_Args, args);
  args.key = key.data();
  args.key_size = key.size();
  args.value = value.data();
  args.value_size = value.size();
  Put(&args);
}

// Poses as process 1: connects to process 0 and sends it some bytes.
int Pose(const std::string& bytes) {
  const std::string text = Await("xlacpu/address/0");  // host:port:token
  const size_t colon = text.find(':'), last = text.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(std::stoi(text.substr(colon + 1)));
  EXPECT_EQ(inet_pton(AF_INET, text.substr(0, colon).c_str(),
                      &address.sin_addr),
            1);
  std::string greeting = "XLACPUT2";
  for (size_t i = last + 1; i < text.size(); i += 2) {
    greeting += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  greeting += std::string("\1\0\0\0\0\0\0\0", 8);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address),
            0);
  const std::string all = bytes.empty() ? "" : greeting + bytes;
  EXPECT_EQ(send(fd, all.data(), all.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(all.size()));
  return fd;
}

Outcome AllReduce(const Member& member) {
  std::vector<std::vector<float>> out;
  return member.Run(Reduction("add", "all_reduce", "", Type(4), Type(4)),
                    Type(4), Type(4), [](int r) { return Ramp(r, 4); }, {4},
                    out);
}

// Strangers connect first, more of them than are waited for; then a process that
// announces a message of 2^60 bytes.
HIDDEN_TEST(job_member_with_a_rude_peer) {
  if (NodeOfThisProcess() == 1) return;
  Write("xlacpu/devices/1", std::to_string(kLocal));
  std::thread rude([] {
    for (int i = 0; i < 100; ++i) Pose("");
    const int fd = Pose("?");  // a greeting, and the first byte of a header
    std::string header(47, '\0');
    header[38] = 16;
    EXPECT_EQ(send(fd, header.data(), header.size(), 0), ssize_t{47});
  });
  Member member(0);
  rude.join();
  EXPECT_ERROR(AllReduce(member), PJRT_Error_Code_UNAVAILABLE,
               "process 1 has gone: it announces 1152921504606846976 bytes");
}

// Process 1 never sends anything. The caller says that it has stopped.
HIDDEN_TEST(job_member_that_is_watched) {
  if (NodeOfThisProcess() == 1) return;
  Write("xlacpu/devices/1", std::to_string(kLocal));
  std::thread silent([] {
    Pose("?");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Write("xlacpu/failure/0", "process 1 has stopped");
  });
  Member member(0, true);
  for (int again = 0; again < 2; ++again) {
    EXPECT_ERROR(AllReduce(member), PJRT_Error_Code_UNAVAILABLE,
                 "process 1 has stopped");
  }
  silent.join();
}

// ----- the tests

class Store {
 public:
  Store() {
    char name[] = "/tmp/xlacpu_job_XXXXXX";
    EXPECT(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Store() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

pid_t Start(const char* test, int node, const Store& store) {
  std::vector<std::string> settings = {
      "XLACPU_TEST_STORE=" + store.path(),
      "XLACPU_TEST_NODE=" + std::to_string(node)};
  std::vector<char*> environment;
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  for (std::string& s : settings) environment.push_back(s.data());
  environment.push_back(nullptr);
  std::string self = "/proc/self/exe", name = test;
  char* arguments[] = {self.data(), harness::plugin_path.data(), name.data(),
                       nullptr};
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, fs::read_symlink(self).c_str(), nullptr, nullptr,
                        arguments, environment.data()),
            0);
  return pid;
}

void RunJob(const char* test) {
  Store store;
  pid_t members[kProcesses];
  for (int i = 0; i < kProcesses; ++i) members[i] = Start(test, i, store);
  for (pid_t member : members) {
    int status = 0;
    EXPECT_EQ(waitpid(member, &status, 0), member);
    EXPECT_EQ(status, 0);
  }
}

TEST(collectives_cross_processes) { RunJob("job_member"); }

TEST(a_process_that_leaves_is_an_error_for_the_others) {
  RunJob("job_member_that_is_left");
}

TEST(strangers_and_oversized_messages_harm_nobody) {
  RunJob("job_member_with_a_rude_peer");
}

TEST(a_watched_job_ends_what_waits) { RunJob("job_member_that_is_watched"); }

// The caller closes the store while process 0 waits for a connection.
TEST(opening_ends_with_the_store) {
  Store store;
  setenv("XLACPU_TEST_STORE", store.path().c_str(), 1);
  Write("xlacpu/devices/1", "1");
  std::vector<PJRT_NamedValue> options = {IntOption("num_nodes", 2),
                                          IntOption("node_id", 0)};
  auto args = JobArgs(options);
  args.kv_get_callback = [](PJRT_KeyValueGetCallback_Args* get) {
    if (std::string(get->key, get->key_size) != "xlacpu/abort") return Get(get);
    const std::string why = "the store was closed";
    return (*get->callback_error)(PJRT_Error_Code_UNAVAILABLE, why.data(),
                                  why.size());
  };
  EXPECT_ERROR(harness::Take(harness::api->PJRT_Client_Create(&args)),
               PJRT_Error_Code_UNAVAILABLE, "the store was closed");
}

TEST(job_without_a_store_is_an_error) {
  EXPECT_ERROR(harness::TryClient({IntOption("num_nodes", 2)}),
               PJRT_Error_Code_INVALID_ARGUMENT, "key-value callbacks");
}

TEST(job_with_a_missing_process_is_an_error) {
  Store store;
  setenv("XLACPU_TEST_STORE", store.path().c_str(), 1);
  std::vector<PJRT_NamedValue> options = {
      IntOption("num_nodes", 2), IntOption("node_id", 0),
      IntOption("cpu_connect_timeout_seconds", 1)};
  auto args = JobArgs(options);
  EXPECT_ERROR(harness::Take(harness::api->PJRT_Client_Create(&args)),
               PJRT_Error_Code_DEADLINE_EXCEEDED, "nobody has put it");
}

TEST(job_of_fewer_processes_than_the_number_is_an_error) {
  Store store;
  setenv("XLACPU_TEST_STORE", store.path().c_str(), 1);
  std::vector<PJRT_NamedValue> options = {IntOption("num_nodes", 2),
                                          IntOption("node_id", 2)};
  auto args = JobArgs(options);
  EXPECT_ERROR(harness::Take(harness::api->PJRT_Client_Create(&args)),
               PJRT_Error_Code_INVALID_ARGUMENT, "node_id is 2");
}

}  // namespace
