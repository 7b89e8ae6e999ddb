// SPDX-License-Identifier: Apache-2.0
// JSON text: what is read is written so that it is read as the same.
#include "base/json.h"

#include "tests/fuzz/fuzz.h"

namespace motley::fuzz {

void take(std::string_view input) {
  const std::string name = "input.json", text(input);
  Complaints complaints;
  std::optional<Json> json;
  const bool taken = is_taken(name, [&] {
    json = read_json(name, text, complaints);
    complaints.raise();
  });
  require(!json || json_keys(text), "what is read has keys, or is no object");
  if (!taken) return;
  for (const int indent : {0, 1}) {
    const std::string written = to_text(*json, indent);
    Complaints none;
    const auto again = read_json("written", written, none);
    require(again && none.empty(), "what was written is read: " + none.print());
    require(to_text(*again, indent) == written, "what was written and read is the same: " + written);
  }
}

}  // namespace motley::fuzz
