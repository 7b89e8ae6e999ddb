// SPDX-License-Identifier: Apache-2.0
#include "run/staged_exchanges.h"

#include <motley/error.h>

#include <algorithm>

#include "base/clock.h"

namespace motley {

namespace {

using Queue = DeviceMemory::Queue;

std::size_t aligned(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace

void StagedExchanges::add(int exchange, const std::vector<Message>& sends, const std::vector<Message>& receives, int posted,
                          int waited) {
  if (exchanges_.size() <= static_cast<std::size_t>(exchange)) exchanges_.resize(static_cast<std::size_t>(exchange) + 1);
  Exchange& e = at(exchange);
  e.posted = posted;
  e.waited = waited;
  e.front = device_.make_mark();
  e.uploaded = device_.make_mark();
  auto put = [&](std::vector<Piece>& pieces, const Message& m) {
    pieces.push_back({m, e.bytes, nullptr});
    if (!direct_) e.bytes += aligned(m.bytes.size());
  };
  for (const Message& m : receives) put(e.receives, m);
  for (const Message& m : sends) {
    put(e.sends, m);
    e.sends.back().copied = device_.make_mark();
  }
}

// Places each exchange in the lowest gap among the exchanges that are in flight at the same time.
void StagedExchanges::allocate() {
  std::size_t all = 0;
  std::vector<const Exchange*> laid;
  for (Exchange& e : exchanges_) {
    std::vector<std::pair<std::size_t, std::size_t>> busy;
    for (const Exchange* other : laid)
      if (other->posted <= e.waited && e.posted <= other->waited) busy.emplace_back(other->offset, other->offset + other->bytes);
    std::sort(busy.begin(), busy.end());
    for (const auto& [from, to] : busy) {
      if (from >= e.offset + e.bytes) break;
      e.offset = std::max(e.offset, to);
    }
    all = std::max(all, e.offset + e.bytes);
    laid.push_back(&e);
  }
  pinned_ = device_.allocate_host(std::max<std::size_t>(all, 1));
}

void StagedExchanges::post(int exchange) {
  Exchange& e = at(exchange);
  // Data of the last receive may still be copied out of the pinned memory. Copies run in order.
  if (last_upload_ != nullptr) motley::wait(transport_, {}, "copies to the device", [&] { return last_upload_->passed(); });
  e.front->set(Queue::compute);
  e.begun = false;
  e.sent = 0;
  open_.push_back(exchange);
  if (direct_) return;  // receives may go to memory that earlier kernels still read
  e.front->hold(Queue::copy);
  for (Piece& p : e.receives) {
    p.ticket = transport_.receive(p.message.peer, exchange, {pinned(e, p), p.message.bytes.size()});
    p.open = true;
  }
  for (Piece& p : e.sends) {
    device_.copy(Queue::copy, pinned(e, p), p.message.bytes.data(), p.message.bytes.size());
    p.copied->set(Queue::copy);
  }
}

void StagedExchanges::take(const Exchange& e, Piece& piece) {
  piece.open = false;
  if (!direct_) device_.copy(Queue::copy, piece.message.bytes.data(), pinned(e, piece), piece.message.bytes.size());
}

// After all kernels before it; from and to the device's memory.
void StagedExchanges::begin(int exchange) {
  Exchange& e = at(exchange);
  for (Piece& p : e.receives) {
    p.ticket = transport_.receive(p.message.peer, exchange, p.message.bytes);
    p.open = true;
  }
  for (Piece& p : e.sends) p.ticket = transport_.send(p.message.peer, exchange, p.message.bytes);
  e.sent = e.sends.size();
  e.begun = true;
}

bool StagedExchanges::send_ready() {
  bool all = true;
  for (int exchange : open_) {
    Exchange& e = at(exchange);
    if (direct_) {
      if (!e.begun && e.front->passed()) begin(exchange);
      all = all && e.begun;
      continue;
    }
    for (; e.sent < e.sends.size() && e.sends[e.sent].copied->passed(); e.sent++) {
      Piece& p = e.sends[e.sent];
      p.ticket = transport_.send(p.message.peer, exchange, {pinned(e, p), p.message.bytes.size()});
    }
    all = all && e.sent == e.sends.size();
  }
  return all;
}

void StagedExchanges::progress() {
  send_ready();
  for (int exchange : open_)
    for (Piece& p : at(exchange).receives)
      if (p.open && transport_.test(p.ticket)) take(at(exchange), p);
}

// Other ranks may wait for sends that this rank has posted and its device has not yet made.
void StagedExchanges::finish(Transport::Ticket ticket, const std::string& name) {
  motley::wait(
      transport_, {&ticket, 1}, name, send_ready() ? std::function<bool()>{} : [this] { return send_ready(); });
}

double StagedExchanges::wait(int exchange, const std::string& name) {
  Exchange& e = at(exchange);
  const double start = seconds_now();
  motley::wait(transport_, {}, name, [&] {
    progress();
    return direct_ ? e.begun : e.sent == e.sends.size() && e.front->passed();
  });
  const double busy = seconds_now() - start;
  for (Piece& p : e.receives) {
    if (!p.open) continue;
    finish(p.ticket, name);
    take(e, p);
  }
  for (Piece& p : e.sends) finish(p.ticket, name);
  std::erase(open_, exchange);
  if (!direct_ && !e.receives.empty()) {
    e.uploaded->set(Queue::copy);
    e.uploaded->hold(Queue::compute);
    last_upload_ = e.uploaded.get();
  }
  return busy;
}

}  // namespace motley
