// SPDX-License-Identifier: Apache-2.0
// A job's tree before it is read: parts written as paths are replaced by their files' trees, then --set changes values.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"

namespace motley {

class JobTree {
 public:
  explicit JobTree(Complaints& complaints) : complaints_(complaints) {}
  // False: the tree could not be read at all. UserError (66): there is no such file.
  bool load(const std::string& path);
  bool parse(const std::string& name, const std::string& text);
  void set(const std::string& argument);  // "train.batch=64"
  // Makes the paths in profile, data and train absolute.
  void resolve_paths();

  Json& root() { return root_; }
  bool broken(const std::string& part) const { return broken_.contains(part); }  // its file was unreadable; already said
  bool from_file(const Json& part) const { return files_.contains(part.where.source.get()); }
  bool from_set(const Where& where) const { return sets_.contains(where.source.get()); }
  // A complaint that would not be there without --set gets the place of the argument that changed what it is about, if there is
  // one; else it names the arguments. needed: arguments of which each alone, if left out, removes the complaint; none: each of
  // several causes it.
  void blame_sets(Complaints::One& complaint, const std::set<std::string>& needed) const;

 private:
  void join_parts();
  std::string pointer_of(const std::string& keys) const;
  void resolve(Json& path);
  std::string folder_of(const Where& where) const;  // base folder of a relative path written there

  Complaints& complaints_;
  Json root_{};
  struct Set {
    std::string pointer{};  // pointer to what it changes
    Where value{};
  };
  std::vector<Set> changes_{};                    // the changes that could be applied
  std::map<const Source*, std::string> files_{};  // file -> the part in it
  std::set<const Source*> sets_{};
  std::vector<std::shared_ptr<const Source>> kept_{};  // so that their addresses stay unique
  std::set<std::string> broken_{};
};

}  // namespace motley
