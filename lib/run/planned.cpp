// SPDX-License-Identifier: Apache-2.0
#include "run/planned.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

void same_settings(Transport& transport, const std::string& works, const std::vector<std::string>& mine) {
  const std::string text = fmt::format("{}", fmt::join(mine, "\n"));
  const auto all = transport.gather_all(std::as_bytes(std::span(text)));
  const auto line_of = [&](std::size_t rank, std::size_t line) {
    std::string_view rest(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
    for (; line > 0; line--) rest.remove_prefix(rest.find('\n') + 1);
    return rest.substr(0, rest.find('\n'));
  };
  for (std::size_t rank = 1; rank < all.size(); rank++)
    for (std::size_t line = 0; line < mine.size() && all[rank] != all[0]; line++)
      if (line_of(rank, line) != line_of(0, line))
        throw UserError(fmt::format("rank {} {} with {}, rank 0 with {}; give every rank the same", rank, works,
                                    line_of(rank, line), line_of(0, line)));
}

Plan planned(Transport& transport, const Step& step, const Mesh& mesh, const std::function<Plan()>& make) {
  same_everywhere(transport, step.hash(), "another step");
  return plan_of_text("rank 0's plan", from_rank_0(transport, [&] { return to_text(kept_json(make())); }), step, mesh);
}

}  // namespace motley
