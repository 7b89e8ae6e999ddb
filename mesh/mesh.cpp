// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/mesh.h>

#include <algorithm>
#include <limits>
#include <set>

namespace motley {

namespace {

void check_word(const Device& d, const std::string& key, const std::string& word, const std::vector<std::string>& known) {
  if (!word.empty() && std::find(known.begin(), known.end(), word) == known.end())
    throw UserError("device \"" + d.name + "\": " + key + " is \"" + word + "\"" + did_you_mean(word, known));
}

// What a mesh file checks by key.
void check_device(const Device& d) {
  const Device& real = driven(d);
  check_word(d, "isa", real.isa, isa_names());
  check_word(d, "library", real.library, cpu_library_names());
  if (real.memory_bytes < 0 || real.threads < 1 || real.index < 0)
    throw UserError("device \"" + d.name + "\": memory_bytes and index are at least 0, threads at least 1");
}

}  // namespace

Mesh::Mesh(std::vector<Axis> axes, std::vector<Device> devices) : axes_(std::move(axes)), devices_(std::move(devices)) {
  std::size_t ranks = 1;
  std::set<std::string> names;
  if (axes_.empty()) throw UserError("a mesh has at least one axis");
  for (const Axis& a : axes_) {
    if (!is_name(a.name))
      throw UserError("\"" + a.name + "\" is not a valid axis name: letters, digits, _ and -, a letter or _ first");
    if (!names.insert(a.name).second) throw UserError("axis \"" + a.name + "\" is listed twice in the mesh");
    if (a.size < 1 || a.size > 4096)
      throw UserError("axis \"" + a.name + "\" has the size " + std::to_string(a.size) + "; expected 1 to 4096");
    ranks *= static_cast<std::size_t>(a.size);
    if (ranks > std::numeric_limits<int>::max()) throw UserError("the axes make more than 2e9 ranks");
  }
  if (ranks != devices_.size())
    throw UserError("the axes make " + std::to_string(ranks) + " ranks, but " + std::to_string(devices_.size()) +
                    " devices are listed; list one device per rank");
  names.clear();
  for (std::size_t r = 0; r < devices_.size(); r++) {
    if (devices_[r].name.empty()) devices_[r].name = "rank " + std::to_string(r);
    if (!names.insert(devices_[r].name).second) throw UserError("two devices are called \"" + devices_[r].name + "\"");
    check_device(devices_[r]);
  }
}

Coord Mesh::coord(int rank) const {
  Coord c(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    c[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return c;
}

int Mesh::rank(const Coord& coord) const {
  int r = 0;
  for (std::size_t i = 0; i < axes_.size(); i++) r = r * axes_[i].size + coord[i];
  return r;
}

int Mesh::axis(const std::string& name) const {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < axes_.size(); i++) {
    if (axes_[i].name == name) return static_cast<int>(i);
    known.push_back(axes_[i].name);
  }
  throw UserError("the mesh has no axis \"" + name + "\"" + did_you_mean(name, known));
}

}  // namespace motley
