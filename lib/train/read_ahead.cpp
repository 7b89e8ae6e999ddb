// SPDX-License-Identifier: Apache-2.0
#include "train/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "train/beside.h"

namespace motley {

namespace {

constexpr Index kPieces = 16;  // of a box: the step waits for one of them at most

}  // namespace

ReadAhead::ReadAhead(const std::vector<int>& cores, Feeds first) {
  fill(slots_[0], std::move(first));
  if (cores.empty()) return;
  thread_ = start_beside(cores, [this] { work(); });
}

ReadAhead::~ReadAhead() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

ReadAhead::Feeds ReadAhead::next(Feeds next) {
  Feeds out;
  {
    std::unique_lock lock(mutex_);
    Slot& old = slots_[now_];
    changed_.wait(lock, [&] {
      return std::none_of(old.asked.begin(), old.asked.end(), [](const Asked& a) {
        return std::find(a.pieces.begin(), a.pieces.end(), Piece::taken) != a.pieces.end();
      });
    });
    fill(old, std::move(next));
    now_ = 1 - now_;
    for (const auto& [name, read] : slots_[now_].feeds)
      out[name] = [this, &slot = slots_[now_], name = name](const Box& box, std::span<std::byte> to) { give(slot, name, box, to); };
  }
  changed_.notify_all();
  return out;
}

// No thread works on it.
void ReadAhead::fill(Slot& slot, Feeds feeds) {
  slot.feeds = std::move(feeds);
  slot.error = nullptr;
  if (slot.asked.size() != asks_.size()) {
    slot.asked.clear();
    for (const Ask& ask : asks_) {
      Asked& its = slot.asked.emplace_back(Asked{ask});
      const Index rows = ask.box.empty() ? 1 : ask.box.front().size();
      const Index each = std::max<Index>(1, (rows + kPieces - 1) / kPieces);
      for (Index first = 0; first < rows; first += each) {
        Box& box = its.boxes.emplace_back(ask.box);
        const Index end = std::min(first + each, rows);
        if (!box.empty()) box.front() = {ask.box.front().begin + first, ask.box.front().begin + end};
        its.ends.push_back(ask.bytes / static_cast<std::size_t>(rows) * static_cast<std::size_t>(end));
      }
      its.pieces.resize(its.boxes.size());
      its.values.resize(ask.bytes);
    }
  }
  for (Asked& asked : slot.asked) std::fill(asked.pieces.begin(), asked.pieces.end(), Piece::open);
}

std::span<std::byte> ReadAhead::Asked::bytes_of(std::size_t piece, std::span<std::byte> all) const {
  const std::size_t begin = piece == 0 ? 0 : ends[piece - 1];
  return all.subspan(begin, ends[piece] - begin);
}

void ReadAhead::give(Slot& slot, const std::string& name, const Box& box, std::span<std::byte> out) {
  const Ask ask{name, box, out.size()};
  for (Asked& asked : slot.asked)
    if (asked.ask == ask) return give_asked(slot, asked, out);
  if (!out.empty() && thread_.joinable()) {
    const std::scoped_lock lock(mutex_);
    if (std::find(asks_.begin(), asks_.end(), ask) == asks_.end()) asks_.push_back(ask);
  }
  slot.feeds.at(name)(box, out);
}

void ReadAhead::give_asked(Slot& slot, Asked& asked, std::span<std::byte> out) {
  std::vector<std::size_t> awaited;
  for (std::size_t i = 0; i < asked.pieces.size(); i++) {
    Piece state{};
    {
      const std::scoped_lock lock(mutex_);
      state = asked.pieces[i];
      if (state == Piece::open) asked.pieces[i] = Piece::elsewhere;
    }
    if (state == Piece::open || state == Piece::elsewhere)
      slot.feeds.at(asked.ask.name)(asked.boxes[i], asked.bytes_of(i, out));
    else
      awaited.push_back(i);
  }
  for (const std::size_t i : awaited) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return asked.pieces[i] != Piece::taken; });
      if (asked.pieces[i] == Piece::failed) std::rethrow_exception(slot.error);
    }
    const std::span<std::byte> from = asked.bytes_of(i, asked.values);
    std::memcpy(asked.bytes_of(i, out).data(), from.data(), from.size());
  }
}

// This step's first: what it has not asked for yet comes sooner.
bool ReadAhead::take_one(Slot*& slot, Asked*& asked, std::size_t& piece) {
  for (const int s : {now_, 1 - now_})
    for (Asked& one : slots_[s].asked) {
      const auto open = std::find(one.pieces.begin(), one.pieces.end(), Piece::open);
      if (open == one.pieces.end() || !slots_[s].feeds.contains(one.ask.name)) continue;
      *open = Piece::taken;
      slot = &slots_[s];
      asked = &one;
      piece = static_cast<std::size_t>(open - one.pieces.begin());
      return true;
    }
  return false;
}

void ReadAhead::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Slot* slot = nullptr;
    Asked* asked = nullptr;
    std::size_t piece = 0;
    changed_.wait(lock, [&] { return over_ || take_one(slot, asked, piece); });
    if (over_) return;
    const ReadBox& read = slot->feeds.at(asked->ask.name);
    lock.unlock();
    std::exception_ptr error;
    try {
      read(asked->boxes[piece], asked->bytes_of(piece, asked->values));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !slot->error) slot->error = error;
    asked->pieces[piece] = error ? Piece::failed : Piece::read;
    changed_.notify_all();
  }
}

}  // namespace motley
