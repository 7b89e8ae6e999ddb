// SPDX-License-Identifier: Apache-2.0
#include "run/buffer_values.h"

#include <motley/error.h>

#include "base/copy_box.h"

namespace motley {

std::vector<double> read_values(const Buffer& buffer, const Box& box, const std::byte* memory) {
  std::vector<double> out(static_cast<std::size_t>(volume(box)));
  for_each_row_of(buffer, box, const_cast<std::byte*>(memory), row_major(box), [&](const auto* from, const BoxRow& row) {
    double* const to = out.data() + row.b;
    for (Index i = 0; i < row.length; i++) to[i * row.b_step] = static_cast<double>(from[row.a + i * row.a_step]);
  });
  return out;
}

void write_values(const Buffer& buffer, const Box& box, std::span<const double> values, std::byte* memory) {
  check(buffer.dtype != DType::i32 && values.size() == static_cast<std::size_t>(volume(box)), "reals of the box are written");
  for_each_row_of(buffer, box, memory, row_major(box), [&]<class T>(T* to, const BoxRow& row) {
    const double* const from = values.data() + row.b;
    for (Index i = 0; i < row.length; i++) to[row.a + i * row.a_step] = static_cast<T>(from[i * row.b_step]);
  });
}

}  // namespace motley
