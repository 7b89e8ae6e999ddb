// SPDX-License-Identifier: Apache-2.0
#include "train/read_all.h"

#include <motley/error.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "run/agreed.h"
#include "train/beside.h"

namespace motley {

namespace {

Box whole_box(const std::vector<Index>& extents) {
  Box out;
  for (const Index n : extents) out.push_back({0, n});
  return out;
}

}  // namespace

std::vector<Unreadable> unreadable(Range samples, Index step, const std::function<void(Index)>& read,
                                   const std::vector<int>& cores) {
  std::vector<Unreadable> out;
  std::optional<Error> other;
  std::mutex mutex;
  std::atomic<Index> next = samples.begin;
  const auto work = [&] {
    for (Index n = next.fetch_add(step); n < samples.end; n = next.fetch_add(step)) {
      const std::optional<Error> failed = error_of([&] { read(n); });
      if (!failed) continue;
      const std::scoped_lock lock(mutex);
      if (failed->code() == Exit::data)
        out.push_back({n, failed->what()});
      else
        other = failed, next = samples.end;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cores.size() && static_cast<Index>(i) < samples.size() / step; i++) try {
      threads.push_back(start_beside(cores, work));
    } catch (const std::system_error&) {  // no further thread can be started
      break;
    }
  work();
  for (std::thread& thread : threads) thread.join();
  if (other) throw Error(*other);
  std::sort(out.begin(), out.end(), [](const Unreadable& a, const Unreadable& b) { return a.sample < b.sample; });
  return out;
}

void read_whole(const Dataset& data, Index sample) {
  const Box box = whole_box(data.sample_extents()), labels = whole_box(data.label_extents());
  std::vector<double> values(static_cast<std::size_t>(volume(box)));
  data.read(sample, box, values);
  if (data.label_dtype() == DType::i32) {
    std::vector<std::int32_t> found(static_cast<std::size_t>(volume(labels)));
    data.read_labels(sample, labels, found);
  } else {
    values.resize(static_cast<std::size_t>(volume(labels)));
    data.read_targets(sample, labels, values);
  }
  for (const auto& [name, its] : data.further()) read_whole(*its, sample);
}

}  // namespace motley
