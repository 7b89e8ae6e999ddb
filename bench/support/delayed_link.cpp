// SPDX-License-Identifier: Apache-2.0
#include "bench/support/delayed_link.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "base/clock.h"

namespace motley::bench {

namespace {

// When what was sent, by (from, to, tag) and count.
struct Log {
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::vector<double>> sent;
};

class Delayed final : public Transport {
 public:
  Delayed(std::unique_ptr<Transport> inner, std::shared_ptr<Log> log, LinkSpeed speed)
      : inner_(std::move(inner)), log_(std::move(log)), speed_(speed) {
    crowded_ = inner_->crowded();
    hosts_ = inner_->hosts();
  }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    if (tag >= 0) {
      const std::lock_guard hold(log_->mutex);
      log_->sent[{rank(), to, tag}].push_back(seconds_now());
    }
    return inner_->send(to, tag, bytes);
  }
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    const Ticket ticket = inner_->receive(from, tag, bytes);
    if (tag >= 0) under_way_[ticket] = {from, tag, received_[{from, tag}]++, bytes.size(), seconds_now(), -1};
    return ticket;
  }
  bool test(Ticket ticket) override {
    schedule();
    const auto at = under_way_.find(ticket);
    if (at != under_way_.end() && (at->second.arrives < 0 || seconds_now() < at->second.arrives)) return false;
    if (!inner_->test(ticket)) return false;
    if (at != under_way_.end()) under_way_.erase(at);
    bytes_received_ = inner_->bytes_received();
    return true;
  }
  int peer(Ticket ticket) const override { return inner_->peer(ticket); }
  bool idle() const override { return inner_->idle(); }
  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) override { return inner_->gather_all(mine); }
  HeldBytes allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  std::vector<HeldBytes> share(const HeldBytes& mine) override { return inner_->share(mine); }
  Ticket await(const std::atomic<std::uint64_t>& flag, std::uint64_t value, int from, std::int64_t bytes) override {
    return inner_->await(flag, value, from, bytes);
  }
  void abort(const Error& error) noexcept override { inner_->abort(error); }

 private:
  struct Message {
    int from, tag;
    std::size_t count, bytes;
    double posted, arrives;  // below 0: not sent yet, as far as this rank has looked
  };

  // Gives what both ends have posted its place on the line, in the order in which that happened.
  void schedule() {
    std::vector<std::pair<double, Message*>> ready;
    {
      const std::lock_guard hold(log_->mutex);
      for (auto& [ticket, m] : under_way_) {
        const auto sent = log_->sent.find({m.from, rank(), m.tag});
        if (m.arrives < 0 && sent != log_->sent.end() && sent->second.size() > m.count)
          ready.emplace_back(std::max(m.posted, sent->second[m.count]), &m);
      }
    }
    std::sort(ready.begin(), ready.end());
    for (const auto& [both, m] : ready)
      m->arrives = line_ = std::max(line_, both) + speed_.seconds + static_cast<double>(m->bytes) / speed_.bytes_per_second;
  }

  std::unique_ptr<Transport> inner_;
  std::shared_ptr<Log> log_;
  LinkSpeed speed_;
  std::map<Ticket, Message> under_way_{};
  std::map<std::pair<int, int>, std::size_t> received_{};
  double line_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> delayed(int ranks, LinkSpeed speed) {
  const auto log = std::make_shared<Log>();
  std::vector<std::unique_ptr<Transport>> out;
  for (auto& inner : in_memory(ranks)) out.push_back(std::make_unique<Delayed>(std::move(inner), log, speed));
  return out;
}

}  // namespace motley::bench
