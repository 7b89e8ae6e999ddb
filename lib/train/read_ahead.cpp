// SPDX-License-Identifier: Apache-2.0
#include "train/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "train/beside.h"

namespace motley {

namespace {

constexpr Index kPieces = 16;  // of a box: the step waits for at most one piece of each thread
constexpr std::size_t kMostReaders = 16;

}  // namespace

ReadAhead::ReadAhead(const std::vector<int>& cores, Feeds first) {
  fill(slots_[0], std::move(first));
  try {
    for (std::size_t i = 0; i < std::min(cores.size(), kMostReaders); i++)
      threads_.push_back(start_beside(cores, [this] { work(); }));
  } catch (const std::system_error&) {  // no further thread can be started; without any the step reads
  }
}

ReadAhead::~ReadAhead() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

ReadAhead::Feeds ReadAhead::next(Feeds next) {
  Feeds out;
  {
    std::unique_lock lock(mutex_);
    Slot& old = slots_[now_];
    changed_.wait(lock, [&] {
      return std::none_of(old.readings.begin(), old.readings.end(), [](const Reading& a) {
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

// Called while no thread works on the slot.
void ReadAhead::fill(Slot& slot, Feeds feeds) {
  slot.feeds = std::move(feeds);
  slot.error = nullptr;
  if (slot.readings.size() != requests_.size()) {
    slot.readings.clear();
    for (const Request& request : requests_) {
      Reading& its = slot.readings.emplace_back(Reading{request});
      const Index rows = request.box.empty() ? 1 : request.box.front().size();
      const Index each = std::max<Index>(1, (rows + kPieces - 1) / kPieces);
      for (Index first = 0; first < rows; first += each) {
        Box& box = its.boxes.emplace_back(request.box);
        const Index end = std::min(first + each, rows);
        if (!box.empty()) box.front() = {request.box.front().begin + first, request.box.front().begin + end};
        its.ends.push_back(request.bytes / static_cast<std::size_t>(rows) * static_cast<std::size_t>(end));
      }
      its.pieces.resize(its.boxes.size());
      its.values.resize(request.bytes);
    }
  }
  for (Reading& reading : slot.readings) std::fill(reading.pieces.begin(), reading.pieces.end(), Piece::open);
}

std::span<std::byte> ReadAhead::Reading::bytes_of(std::size_t piece, std::span<std::byte> all) const {
  const std::size_t begin = piece == 0 ? 0 : ends[piece - 1];
  return all.subspan(begin, ends[piece] - begin);
}

void ReadAhead::give(Slot& slot, const std::string& name, const Box& box, std::span<std::byte> out) {
  const Request request{name, box, out.size()};
  for (Reading& reading : slot.readings)
    if (reading.request == request) return give_reading(slot, reading, out);
  if (!out.empty() && !threads_.empty()) {
    const std::scoped_lock lock(mutex_);
    if (std::find(requests_.begin(), requests_.end(), request) == requests_.end()) requests_.push_back(request);
  }
  slot.feeds.at(name)(box, out);
}

void ReadAhead::give_reading(Slot& slot, Reading& reading, std::span<std::byte> out) {
  std::vector<std::size_t> awaited;
  for (std::size_t i = 0; i < reading.pieces.size(); i++) {
    Piece state{};
    {
      const std::scoped_lock lock(mutex_);
      state = reading.pieces[i];
      if (state == Piece::open) reading.pieces[i] = Piece::elsewhere;
    }
    if (state == Piece::open || state == Piece::elsewhere)
      slot.feeds.at(reading.request.name)(reading.boxes[i], reading.bytes_of(i, out));
    else
      awaited.push_back(i);
  }
  for (const std::size_t i : awaited) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return reading.pieces[i] != Piece::taken; });
      if (reading.pieces[i] == Piece::failed) std::rethrow_exception(slot.error);
    }
    const std::span<std::byte> from = reading.bytes_of(i, reading.values);
    std::memcpy(reading.bytes_of(i, out).data(), from.data(), from.size());
  }
}

// This step's pieces first: those not read yet are needed sooner.
bool ReadAhead::take_one(Slot*& slot, Reading*& reading, std::size_t& piece) {
  for (const int s : {now_, 1 - now_})
    for (Reading& one : slots_[s].readings) {
      const auto open = std::find(one.pieces.begin(), one.pieces.end(), Piece::open);
      if (open == one.pieces.end() || !slots_[s].feeds.contains(one.request.name)) continue;
      *open = Piece::taken;
      slot = &slots_[s];
      reading = &one;
      piece = static_cast<std::size_t>(open - one.pieces.begin());
      return true;
    }
  return false;
}

void ReadAhead::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Slot* slot = nullptr;
    Reading* reading = nullptr;
    std::size_t piece = 0;
    changed_.wait(lock, [&] { return over_ || take_one(slot, reading, piece); });
    if (over_) return;
    const ReadBox& read = slot->feeds.at(reading->request.name);
    lock.unlock();
    std::exception_ptr error;
    try {
      read(reading->boxes[piece], reading->bytes_of(piece, reading->values));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !slot->error) slot->error = error;
    reading->pieces[piece] = error ? Piece::failed : Piece::read;
    changed_.notify_all();
  }
}

}  // namespace motley
