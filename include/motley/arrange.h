// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which axes a mesh gets, and which device is where along them.
#pragma once
#include <motley/mesh.h>
#include <motley/profile.h>
#include <motley/rules.h>
#include <motley/step.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup planning
/// @{

/// The devices of a mesh along certain axes.
struct Arrangement {
  Mesh mesh;                        ///< devices keep their names; rank r is the device at the r-th place
  std::string how{};                ///< "one axis", "as listed", "hosts along outer", "kinds along inner"
  std::optional<double> seconds{};  ///< of a predicted step; nothing: not predicted, or no plan fits in the devices' memory
  std::uint64_t work = 0;           ///< of what each device computes in that plan: equal ones are one plan under two names
  std::string text() const;         ///< "outer 2 x inner 2, hosts along outer: [a, b], [c, d]"
};

/// What arrange() found.
struct Arranged {
  std::vector<Arrangement> planned{};  ///< completely, the fastest first; never empty. Where one is left, it is not planned here
  int dropped = 0;                     ///< other arrangements: by their tables, or all others without a profile
  bool measured = false;               ///< whether there was a profile
  std::string text() const;            ///< the first and the second with their seconds, and how many were planned
};

/// Options of arrange(). Every field has a default.
struct ArrangeOptions {
  DType dtype = DType::f32;                                 ///< of every float tensor
  std::function<void(const std::string& line)> progress{};  ///< called before each arrangement is looked at
};

/// The axes of "axes": "auto": one axis `all`, or axes `outer` and `inner`, with the devices as listed, hosts along either of the
/// two, or unlike devices along either. Layouts with the parts of the tables say which of them may be the fastest: at most 12, of a
/// large step 2, one axis among them. If there are several, each gets its own layout and a predicted step. Without a profile
/// (empty): one axis. Pure: the same on every rank.
///
/// mesh: Mesh::load() reads "auto" as one axis. profile: of its devices, in any order. On the arranged mesh a rank drives the
/// device at its new place, and Runtime::backend() refuses another device than it has opened: measure in one run of the program,
/// and arrange at the beginning of the next, from the file that the first has kept; on several hosts the launcher has to start the
/// ranks in the new order. measure() reads that file in the order of any mesh of these devices; where nothing is measured,
/// balance() takes in_order_of(mesh, profile).
/// @throws UserError rules that name an axis or leave no layout open; a profile of another number of devices; no arrangement can be
///   planned
Arranged arrange(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
                 const ArrangeOptions& options = {});

/// @}
}  // namespace motley
