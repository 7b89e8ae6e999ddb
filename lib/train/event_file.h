// SPDX-License-Identifier: Apache-2.0
// Scalars of a run's steps in an event file, as TensorBoard reads them: records of TFRecord's framing, each an Event of
// tensorflow/core/util/event.proto with the few fields that scalars need.
#pragma once
#include <motley/dims.h>

#include <string>
#include <utility>
#include <vector>

#include "base/open_directory.h"

namespace motley {

enum class StepLog : std::uint8_t { none, tensorboard };  // train.log: what a run writes beside metrics.jsonl

constexpr const char* kEventsFile = "events.out.tfevents.motley";  // in the run directory; TensorBoard looks for "tfevents"

class EventFile {
 public:
  using Scalars = std::vector<std::pair<std::string, double>>;  // tag, value
  // Of an existing file the records up to this step are kept; one that is damaged, or no event file, is replaced. UserError(io)
  explicit EventFile(const FileIn& file, Index keep_steps = 0);
  ~EventFile();
  EventFile(EventFile&& other) noexcept;
  EventFile& operator=(EventFile&&) = delete;
  void add(Index step, const Scalars& scalars);  // one record, by one write. UserError(io)

 private:
  void write(const std::string& record);
  std::string path_;
  int fd_ = -1;
};

}  // namespace motley
