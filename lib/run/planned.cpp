// SPDX-License-Identifier: Apache-2.0
#include "run/planned.h"

#include "mesh/control.h"
#include "plan/plan_file.h"
#include "run/agreed.h"

namespace motley {

void same_everywhere(Transport& transport, std::uint64_t number, const std::string& what) {
  const auto all = control::all_of(transport, number);
  for (std::size_t r = 1; r < all.size(); r++)
    if (all[r] != all[0])
      throw UserError("rank " + std::to_string(r) + " has " + what + " than rank 0; give every rank the same files");
}

Plan planned(Transport& transport, const Step& step, const Mesh& mesh, const std::function<Plan()>& make) {
  same_everywhere(transport, step.hash(), "another step");
  std::string text;
  on_rank_0(transport, [&] { text = to_text(kept_json(make())); });
  const std::vector<std::byte> sent = transport.gather_all(std::as_bytes(std::span(text))).front();
  return plan_of_text("rank 0's plan", {reinterpret_cast<const char*>(sent.data()), sent.size()}, step, mesh);
}

}  // namespace motley
