// SPDX-License-Identifier: Apache-2.0
// Checkpoints: any manifest, marked complete, beside one file of 64 bytes. A manifest that is taken is written as it was read.
#include "weights/checkpoint.h"

#include "base/hash.h"
#include "tests/fuzz/fuzz.h"

namespace motley::fuzz {

void take(std::string_view input) {
  const std::string text(input), file = file_of(kManifest, input);
  Manifest manifest;
  if (!is_taken(file, [&] { manifest = parse_manifest(file, text); })) return;
  const std::string written = to_text(manifest);
  require(to_text(parse_manifest("written", written)) == written, "what was written and read is the same: " + written);
  static_cast<void>(position_mistake(manifest));
  file_of(shard_name(0), std::string(64, '\0'));
  file_of(kMarker, to_hex(hash_bytes(text)) + "\n");
  is_taken(folder().string(), [&] {
    const Checkpoint checkpoint(folder());
    checkpoint.check_chunks();
  });
}

}  // namespace motley::fuzz
