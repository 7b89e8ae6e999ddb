// SPDX-License-Identifier: Apache-2.0
// What other systems (PyTorch, Keras, CUDA, Slurm) call the things in motley's files, and things that these files cannot have yet.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace motley {

struct ForeignWord {
  std::string meant{};  // one of `right`; empty: it is not built yet
};
// For a word that is not in `right`; upper case, - and _ do not matter.
std::optional<ForeignWord> foreign_word(const std::string& wrong, const std::vector<std::string>& right);

}  // namespace motley
