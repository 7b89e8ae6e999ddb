// SPDX-License-Identifier: Apache-2.0
// The messages of a rank whose slices are in a device's memory: each passes through pinned memory of the host. The pieces and their
// order are the Program's, the same as on any rank, so that slices of devices and of hosts can be in one exchange. If the transport
// takes the device's memory, messages go directly from and to it.
#pragma once
#include <motley/backend.h>
#include <motley/transport.h>

#include <memory>
#include <string>
#include <vector>

namespace motley {

class StagedExchanges {
 public:
  struct Message {
    int peer = -1;
    std::span<std::byte> bytes{};
  };
  StagedExchanges(DeviceMemory& device, Transport& transport)
      : device_(device), transport_(transport), direct_(transport.takes_device_memory()) {}
  StagedExchanges(const StagedExchanges&) = delete;
  StagedExchanges& operator=(const StagedExchanges&) = delete;
  // The pieces of one exchange, which is in flight from step `posted` to step `waited`.
  void add(int exchange, const std::vector<Message>& sends, const std::vector<Message>& receives, int posted, int waited);
  void allocate();  // the pinned memory, after the last add(). DeviceError
  // Starts the receives, and enqueues the copies of what is sent after all kernels so far.
  void post(int exchange);
  // For all exchanges in flight: sends what the device has made, and copies to it what has arrived. To be called between kernels.
  void progress();
  // Waits until the exchange is complete; kernels from now on run after its data. Other exchanges progress in that time. Returns
  // the seconds in which this rank's device was still working.
  double wait(int exchange, const std::string& name);
  const DeviceMemory::Block& pinned() const { return pinned_; }  // memory that messages use

 private:
  struct Piece {
    Message message{};
    std::size_t offset = 0;                        // in the pinned memory
    std::unique_ptr<DeviceMemory::Mark> copied{};  // of a send: passed once it is in the pinned memory
    Transport::Ticket ticket = 0;
    bool open = false;  // of a receive: not yet arrived
  };
  struct Exchange {
    std::vector<Piece> sends{}, receives{};
    std::unique_ptr<DeviceMemory::Mark> front{}, uploaded{};
    bool begun = false;  // used where nothing is staged
    std::size_t sent = 0, bytes = 0, offset = 0;
    int posted = 0, waited = 0;
  };
  Exchange& at(int exchange) { return exchanges_.at(static_cast<std::size_t>(exchange)); }
  std::byte* pinned(const Exchange& e, const Piece& p) const { return pinned_.get() + e.offset + p.offset; }
  void take(const Exchange& e, Piece& piece);
  bool send_ready();  // false: a device is still computing what is to be sent
  void begin(int exchange);
  void finish(Transport::Ticket ticket, const std::string& name);

  DeviceMemory& device_;
  Transport& transport_;
  const bool direct_;                  // no pinned memory and no copies
  std::vector<Exchange> exchanges_{};  // by number; without pieces they take no memory
  std::vector<int> open_{};            // posted and not yet waited for, in that order
  DeviceMemory::Block pinned_{};
  DeviceMemory::Mark* last_upload_ = nullptr;
};

}  // namespace motley
