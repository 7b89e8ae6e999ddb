// SPDX-License-Identifier: Apache-2.0
// Transformers of the zoo (zoo.h).
#pragma once
#include "config/zoo.h"

namespace motley {

bool is_transformer(const std::string& network);
// The layers of a transformer; the loss is over "vocabulary" (gpt, bert) or "classes" (vit). UserError: heads that do not divide
// the features, patches that do not divide the images.
Json::Array transformer_layers(const ZooChoice& choice);
// gpt, bert: whether the input is whole numbers.
bool reads_tokens(const std::string& network);

}  // namespace motley
