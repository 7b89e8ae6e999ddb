// SPDX-License-Identifier: Apache-2.0
// The kernel rows that were used last.
#pragma once
#include <motley/dims.h>
#include <motley/error.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

namespace motley::svm {

template <class T>
class RowCache {
 public:
  // For rows of the samples 0..ids-1 within so many bytes; at least `least` rows of any length.
  RowCache(Index bytes, Index ids, Index least) : bytes_(bytes), least_(least), slot_of_(static_cast<std::size_t>(ids), -1) {}

  Index fits(Index length) const {  // so many rows of this length
    const auto fit = bytes_ / std::max<Index>(1, length * static_cast<Index>(sizeof(T)));
    return std::max(least_, std::min(fit, static_cast<Index>(slot_of_.size())));
  }
  void clear(Index length, Index rows) {  // forgets all rows; from now on at most so many of this length
    std::fill(slot_of_.begin(), slot_of_.end(), Index{-1});
    slots_.clear();
    length_ = length;
    capacity_ = rows;
    // All of the bytes, as far as rows of this length can use them: shorter ones that keep() leaves may be more.
    const auto ids = static_cast<Index>(slot_of_.size());
    room_ = std::max({room_, capacity_ * length_, std::min(bytes_ / static_cast<Index>(sizeof(T)), ids * length_)});
    memory_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(room_));
  }
  Index capacity() const { return capacity_; }  // rows, at most
  void limit(Index rows) {                      // from now on at most so many, of the same length; at most fits(length)
    if (rows < static_cast<Index>(slots_.size())) return clear(length_, rows);
    capacity_ = rows;
  }
  const T* find(Index id) {  // nullptr: it is not here
    const Index slot = slot_of_[static_cast<std::size_t>(id)];
    if (slot < 0) return nullptr;
    slots_[static_cast<std::size_t>(slot)].used = ++clock_;
    return memory_.get() + slot * length_;
  }
  bool has(Index id) const { return slot_of_[static_cast<std::size_t>(id)] >= 0; }
  T* insert(Index id) {  // in place of the row that was not used for the longest time
    auto slot = static_cast<Index>(slots_.size());
    if (slot < capacity_) {
      slots_.push_back({});
    } else {
      const auto oldest =
          std::min_element(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) { return a.used < b.used; });
      slot = oldest - slots_.begin();
      slot_of_[static_cast<std::size_t>(oldest->id)] = -1;
    }
    slots_[static_cast<std::size_t>(slot)] = {id, ++clock_};
    slot_of_[static_cast<std::size_t>(id)] = slot;
    return memory_.get() + slot * length_;
  }
  // Only these elements of each row are kept, in ascending order; then rows have this length, and there are at most so many: at
  // most fits(length), or as many as before.
  void keep(std::span<const Index> elements, Index length, Index rows) {
    const Index before = length_;
    for (std::size_t s = 0; s < slots_.size(); s++) {
      const T* const from = memory_.get() + static_cast<Index>(s) * before;
      T* const to = memory_.get() + static_cast<Index>(s) * length;  // not after `from`, and element k is from k or later
      for (std::size_t k = 0; k < elements.size(); k++) to[k] = from[elements[k]];
      std::fill(to + elements.size(), to + length, T{0});
    }
    length_ = length;
    capacity_ = rows;
    check(capacity_ * length_ <= room_, "rows of an SVM's cache have memory");
  }

 private:
  struct Slot {
    Index id = -1;
    std::uint64_t used = 0;
  };

  Index bytes_, least_, length_ = 0, capacity_ = 0, room_ = 0;
  std::vector<Index> slot_of_;  // by id; -1: not here
  std::vector<Slot> slots_{};
  std::unique_ptr<T[]> memory_{};
  std::uint64_t clock_ = 0;
};

}  // namespace motley::svm
