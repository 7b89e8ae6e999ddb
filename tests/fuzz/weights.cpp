// SPDX-License-Identifier: Apache-2.0
// Files of tensors: .safetensors, .npz, .npy. Of what is taken all values are read.
#include "tests/fuzz/fuzz.h"
#include "weights/weights_file.h"

namespace motley::fuzz {

void take(std::string_view input) {
  const std::string file = file_of("input", input);
  is_taken(file, [&] {
    const std::unique_ptr<WeightsFile> weights = open_weights(file);
    static_cast<void>(weights->classes());
    require_names(weights->tensors());
    for (std::size_t t = 0; t < weights->tensors().size(); t++) {
      const StoredTensor& tensor = weights->tensors()[t];
      require(weights->find(tensor.name) == static_cast<int>(t), "a tensor is found by its name");
      const NpyData values = weights->read(static_cast<int>(t));
      const std::size_t count = std::visit([](const auto& list) { return list.size(); }, values);
      require(elements_of(tensor.extents) == static_cast<Index>(count), "as many values as the extents say");
      require_variances(file, tensor.name, values);
    }
  });
  is_taken(file, [&] { static_cast<void>(parse_npy(file, input)); });
}

}  // namespace motley::fuzz
