// SPDX-License-Identifier: Apache-2.0
// The values of a buffer as doubles, for what reads and writes tensors outside of a step.
#pragma once
#include <motley/program.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/box_rows.h"
#include "program/views.h"

namespace motley {

// Calls visit(first element of the memory, row) for every row of `box`; row.a: item of that memory, row.b: item of `strides`, which
// are those of another place for the box. memory: the buffer's first element, of any dtype.
template <class F>
void for_each_row_of(const Buffer& buffer, const Box& box, std::byte* memory, std::span<const Index> strides, F&& visit) {
  const View view = view_of(buffer, 0, box);
  const auto rows = [&](auto* first) {
    for_each_row(view.extents, view.strides, strides, [&](const BoxRow& row) { visit(first + view.element, row); });
  };
  switch (buffer.dtype) {
    case DType::f32: return rows(reinterpret_cast<float*>(memory));
    case DType::f64: return rows(reinterpret_cast<double*>(memory));
    case DType::bf16: return rows(reinterpret_cast<Bf16*>(memory));
    case DType::i32: return rows(reinterpret_cast<std::int32_t*>(memory));
  }
}

// The values of the box, row-major.
std::vector<double> read_values(const Buffer& buffer, const Box& box, const std::byte* memory);
// Writes them. Not to i32.
void write_values(const Buffer& buffer, const Box& box, std::span<const double> values, std::byte* memory);

}  // namespace motley
