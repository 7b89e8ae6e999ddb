// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device_transport.h"

#include <map>

namespace motley::testing {
namespace {

class DeviceTransport final : public Transport {
 public:
  DeviceTransport(Transport& inner, DeviceMemory& device) : inner_(inner), device_(device), done_(device.make_mark()) {
    hosts_ = inner.hosts();
  }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  bool takes_device_memory() const override { return true; }
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    std::vector<std::byte> room(bytes.size());
    copy(room.data(), bytes.data(), bytes.size());
    const Ticket t = inner_.send(to, tag, room);
    return open_.emplace(t, Open{std::move(room), {}}).first->first;
  }
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    std::vector<std::byte> room(bytes.size());
    const Ticket t = inner_.receive(from, tag, room);
    return open_.emplace(t, Open{std::move(room), bytes}).first->first;
  }
  bool test(Ticket ticket) override {
    if (!inner_.test(ticket)) return false;
    const Open& one = open_.at(ticket);
    if (!one.to.empty()) copy(one.to.data(), one.room.data(), one.room.size());
    open_.erase(ticket);
    bytes_received_ = inner_.bytes_received();
    return true;
  }
  int peer(Ticket ticket) const override { return inner_.peer(ticket); }
  bool idle() const override { return inner_.idle(); }
  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) override { return inner_.gather_all(mine); }
  HeldBytes allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  std::vector<HeldBytes> share(const HeldBytes& mine) override { return inner_.share(mine); }
  Ticket await(const std::atomic<std::uint64_t>& flag, std::uint64_t value, int from, std::int64_t bytes) override {
    return open_.emplace(inner_.await(flag, value, from, bytes), Open{}).first->first;
  }
  void abort(const Error& error) noexcept override { inner_.abort(error); }

 private:
  struct Open {
    std::vector<std::byte> room{};
    std::span<std::byte> to{};  // of a receive
  };
  void copy(void* to, const void* from, std::size_t bytes) {
    device_.copy(DeviceMemory::Queue::copy, to, from, bytes);
    done_->set(DeviceMemory::Queue::copy);
    while (!done_->passed()) continue;
  }
  Transport& inner_;
  DeviceMemory& device_;
  std::unique_ptr<DeviceMemory::Mark> done_;
  std::map<Ticket, Open> open_{};
};

}  // namespace

std::unique_ptr<Transport> with_device_memory(Transport& inner, DeviceMemory& device) {
  return std::make_unique<DeviceTransport>(inner, device);
}

}  // namespace motley::testing
