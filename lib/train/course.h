// SPDX-License-Identifier: Apache-2.0
// Which part of its data a run is trained on.
#pragma once
#include <motley/dims.h>

#include <string>

namespace motley {

struct DataPosition;  // motley/trainer.h

// In batches, counted over all epochs: the first, and one after the last.
struct Course {
  Index first = 0, end = 0;
  Index steps() const { return end - first; }
};

// What a run is to be trained on; max_steps counts if it is set.
struct Extent {
  Index samples = 0, batch = 1, epochs = 0, max_steps = 0;
  Index steps_per_epoch() const { return batch > 0 ? samples / batch : 0; }
};

// Of a run from its beginning.
Course whole_course(const Extent& run);
// Of a run that continues from a checkpoint, where its run was in its data; if the batch size has changed, at the batch that
// contains the same sample. UserError: a checkpoint of no run, or one after the end.
Course course_from(const std::string& checkpoint, const DataPosition& from, Index steps_done, const Extent& run);

}  // namespace motley
