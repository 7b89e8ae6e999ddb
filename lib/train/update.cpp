// SPDX-License-Identifier: Apache-2.0
#include "train/update.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/passes.h"

namespace motley {

Update prepare_update(Executor& executor, const Step& step, Transport& transport, Index number) {
  const UpdateScalars& scalars = step.scalars();
  Update out{scalars.schedule.at(scalars.learning_rate, number)};
  double factor = 1;
  if (step.passes().clips) {
    const double mine = executor.squared_norm();
    double sum = 0;
    for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(&mine, 1)))) {  // in rank order
      double its = 0;
      std::memcpy(&its, bytes.data(), sizeof its);
      sum += its;
    }
    out.gradient_norm = std::sqrt(sum);
    factor = std::min(1.0, scalars.clip_norm / (*out.gradient_norm + 1e-6));
  }
  executor.set_update(out.learning_rate, factor);
  return out;
}

}  // namespace motley
