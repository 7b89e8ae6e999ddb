// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/model.h"

namespace motley {

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;  // of a dim
inline const std::vector<std::string> kInputTypes{"f32", "i32"};

// An object: name -> size; with `dtype` also the key "dtype".
void read_sized_dims(Reader& r, const Json& j, std::vector<Dim>& out, DType* dtype = nullptr);
LayerSpec read_layer(Reader& r, const Json& j);
Json layers_schema();  // one form per op, selected by "op"

}  // namespace motley
