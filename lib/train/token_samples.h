// SPDX-License-Identifier: Apache-2.0
// Tokens without labels: what a trained network reads.
#pragma once
#include <motley/data.h>

namespace motley {

// Samples of `positions` consecutive tokens of a file, as load_tokens() reads it; tokens left over at the end are not used.
// vocabulary: 0: any. UserError: 66; 65 another kind of file, fewer tokens than one sample has, or, from read(), a token beyond the
// vocabulary.
std::shared_ptr<const Dataset> token_samples(const std::filesystem::path& file, TokenType type, Index positions, Index vocabulary);

}  // namespace motley
