// SPDX-License-Identifier: Apache-2.0
// All ranks' Programs in virtual time: a kernel takes its profiled seconds, a message arrives link seconds after both ends have
// posted it, a rank receives one message after another.
#include <motley/error.h>
#include <motley/program.h>

#include <algorithm>
#include <map>

namespace motley {

Simulated simulate(const std::vector<Program>& programs, const Profile& profile) {
  const std::size_t ranks = programs.size();
  Simulated out;
  out.busy_seconds.assign(ranks, 0);
  out.waiting_seconds.assign(ranks, 0);
  std::vector<double> now(ranks, 0);
  std::vector<std::size_t> at(ranks, 0);
  std::map<std::pair<int, std::size_t>, double> posted;  // (exchange, rank) -> when
  std::map<std::pair<int, std::size_t>, const Post*> posts;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks; r++) {
      const int me = static_cast<int>(r);
      while (at[r] < programs[r].steps.size()) {
        const auto& what = programs[r].steps[at[r]].what;
        if (const auto* run = std::get_if<RunKernel>(&what)) {
          const double seconds = profile.seconds(me, run->spec).seconds;
          now[r] += seconds;
          out.busy_seconds[r] += seconds;
        } else if (const auto* post = std::get_if<Post>(&what)) {
          posted.emplace(std::pair{post->exchange, r}, now[r]);  // the readers of a window say so before they wait for their own readers
          posts[{post->exchange, r}] = post;
        } else {
          const int exchange = std::get<Wait>(what).exchange;
          const Post* mine = posts.at({exchange, r});
          double done = now[r];
          bool ready = true;
          for (const Piece& piece : mine->receives) {
            auto there = posted.find({exchange, static_cast<std::size_t>(piece.peer)});
            ready = ready && there != posted.end();
            if (ready && piece.window)  // the kernel that looks takes the time
              done = std::max(done, there->second);
            else if (ready)
              done = std::max(done, there->second) + profile.seconds(piece.peer, me, piece.bytes).seconds;
          }
          if (!ready) break;
          out.waiting_seconds[r] += done - now[r];
          now[r] = done;
        }
        at[r]++;
        moved = true;
      }
    }
  }
  for (std::size_t r = 0; r < ranks; r++) check(at[r] == programs[r].steps.size(), "every rank's Program comes to its end");
  out.step_seconds = ranks == 0 ? 0 : *std::max_element(now.begin(), now.end());
  return out;
}

}  // namespace motley
