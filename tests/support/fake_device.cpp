// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_device.h"

#include <motley/error.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <random>

#include "base/clock.h"
#include "kernels/wrapped_backend.h"

namespace motley::testing {
namespace {

// The device's pages, one block after the other in a reserved range, and the two queues; blocks and marks keep it alive.
class Hidden {
 public:
  explicit Hidden(std::uint64_t seed) : random_(seed) {
    void* at = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw DeviceError("no memory for a device that is none");
    base_ = static_cast<std::byte*>(at);
  }
  ~Hidden() { munmap(base_, kReserved); }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;

  std::shared_ptr<std::byte> take(const std::shared_ptr<Hidden>& self, std::size_t bytes) {
    const std::size_t pages = (bytes + 4095) / 4096 * 4096;
    if (pages > kReserved - used_) throw DeviceError("the device has no " + std::to_string(bytes) + " bytes left");
    used_ += pages;
    return {self, base_ + used_ - pages};
  }
  Index bytes() const { return static_cast<Index>(used_); }

  // The device's own look at its memory.
  void work(const std::function<void()>& what) {
    open(PROT_READ | PROT_WRITE);
    what();
    open(PROT_NONE);
  }
  struct Entry {
    std::function<bool()> ready{};  // empty: always
    std::function<void()> run{};    // empty: nothing to do
  };
  void put(DeviceMemory::Queue queue, Entry entry) { queues_[static_cast<std::size_t>(queue)].push_back(std::move(entry)); }
  // Some entries of either queue.
  void turn() {
    for (std::uint64_t left = random_() % 4; left > 0; left--) {
      auto& queue = queues_[random_() % 2];
      if (queue.empty() || (queue.front().ready && !queue.front().ready())) continue;
      const Entry entry = std::move(queue.front());
      queue.pop_front();
      if (entry.run) entry.run();
    }
  }

 private:
  static constexpr std::size_t kReserved = std::size_t{1} << 30;
  void open(int access) {
    if (used_ > 0 && mprotect(base_, used_, access) != 0) throw DeviceError("mprotect failed");
  }
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;  // of every block so far: none is taken twice
  std::array<std::deque<Entry>, 2> queues_{};
  std::mt19937_64 random_;
};

class FakeMark final : public DeviceMemory::Mark {
 public:
  explicit FakeMark(std::shared_ptr<Hidden> hidden) : hidden_(std::move(hidden)) {}
  void set(DeviceMemory::Queue queue) override {
    hidden_->put(queue, {{}, [now = now_, turn = ++set_] { *now = {turn, seconds_now()}; }});
  }
  void hold(DeviceMemory::Queue queue) override {
    hidden_->put(queue, {[now = now_, turn = set_] { return now->turn >= turn; }, {}});
  }
  bool passed() override {
    hidden_->turn();
    return now_->turn >= set_;
  }
  double seconds_since(const DeviceMemory::Mark& earlier) const override {
    return now_->seconds - dynamic_cast<const FakeMark&>(earlier).now_->seconds;
  }

 private:
  struct Now {
    std::uint64_t turn = 0;
    double seconds = 0;
  };
  std::shared_ptr<Hidden> hidden_;
  std::shared_ptr<Now> now_ = std::make_shared<Now>();
  std::uint64_t set_ = 0;
};

class FakeKernel final : public Kernel {
 public:
  FakeKernel(std::unique_ptr<Kernel> inner, std::shared_ptr<Hidden> hidden, int runs, std::string name)
      : inner_(std::move(inner)), hidden_(std::move(hidden)), runs_(runs), name_(std::move(name)) {}
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  std::string implementation() const override { return name_; }
  void run(std::span<void* const> operands, void* workspace) override {
    hidden_->put(DeviceMemory::Queue::compute, {{},
                                                [hidden = hidden_.get(), inner = inner_, runs = runs_,
                                                 list = std::vector<void*>(operands.begin(), operands.end()), workspace] {
                                                  hidden->work([&] {
                                                    for (int i = 0; i < runs; i++) inner->run(list, workspace);
                                                  });
                                                }});
  }

 private:
  std::shared_ptr<Kernel> inner_;
  std::shared_ptr<Hidden> hidden_;
  int runs_;
  std::string name_;
};

class FakeDevice final : public WrappedBackend, public DeviceMemory {
 public:
  FakeDevice(std::unique_ptr<Backend> inner, std::uint64_t seed, Index memory_bytes, int choices)
      : WrappedBackend(std::move(inner)), hidden_(std::make_shared<Hidden>(seed)), memory_bytes_(memory_bytes), choices_(choices) {}

  DeviceMemory* device_memory() override { return this; }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    if (const auto names = implementations(spec); !names.empty()) return compile_as(spec, names.front());
    auto kernel = inner().compile(spec);
    std::string name = kernel->implementation();
    return std::make_unique<FakeKernel>(std::move(kernel), hidden_, 1, std::move(name));
  }
  std::vector<std::string> implementations(const KernelSpec& spec) override {
    std::vector<std::string> names;
    for (int runs = choices_; runs > 0 && choices_ > 1 && spec.op == KernelOp::conv2d && !spec.accumulate; runs--)
      names.push_back(std::to_string(runs) + " runs");
    return names;
  }
  std::unique_ptr<Kernel> compile_as(const KernelSpec& spec, const std::string& implementation) override {
    const auto names = implementations(spec);
    const auto at = std::find(names.begin(), names.end(), implementation);
    if (at == names.end()) return Backend::compile_as(spec, implementation);
    return std::make_unique<FakeKernel>(inner().compile(spec), hidden_, choices_ - static_cast<int>(at - names.begin()),
                                        implementation);
  }
  std::string model() const override { return "fake " + inner().model(); }
  Index memory_bytes() const override { return memory_bytes_ > 0 ? memory_bytes_ : inner().memory_bytes(); }

  Block allocate(std::size_t bytes) override {
    if (memory_bytes_ > 0 && hidden_->bytes() + static_cast<Index>(bytes) > memory_bytes_)
      throw DeviceError("the device has no " + std::to_string(bytes) + " bytes left");
    return hidden_->take(hidden_, bytes);
  }
  Block allocate_host(std::size_t bytes) override {
    return {new std::byte[bytes](), [](std::byte* p) { delete[] p; }};
  }
  std::unique_ptr<Mark> make_mark() override { return std::make_unique<FakeMark>(hidden_); }
  void copy(Queue queue, void* to, const void* from, std::size_t bytes) override {
    hidden_->put(queue, {{}, [hidden = hidden_.get(), to, from, bytes] {
                           hidden->work([&] {
                             if (bytes > 0) std::memcpy(to, from, bytes);
                           });
                         }});
  }

 private:
  std::shared_ptr<Hidden> hidden_;
  Index memory_bytes_;
  int choices_;
};

}  // namespace

std::unique_ptr<Backend> fake_device(std::unique_ptr<Backend> inner, std::uint64_t seed, Index memory_bytes, int choices) {
  return std::make_unique<FakeDevice>(std::move(inner), seed, memory_bytes, choices);
}

}  // namespace motley::testing
