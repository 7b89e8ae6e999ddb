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
  // Where the tree could not be had at all: false. Throws UserError (66) when there is no such file.
  bool load(const std::string& path);
  bool parse(const std::string& name, const std::string& text);
  void set(const std::string& argument);  // "train.batch=64"
  // Makes the paths in profile and data absolute.
  void resolve_paths();

  Json& root() { return root_; }
  bool broken(const std::string& part) const { return broken_.contains(part); }  // its file could not be read; said already
  bool from_file(const Json& part) const { return files_.contains(part.where.source.get()); }
  bool from_set(const Where& where) const { return sets_.contains(where.source.get()); }
  // A complaint that is not there without --set has their place where one of them changed what it is about, else names them.
  // needed: the arguments without any of which it is not there either; none: each of several is enough.
  void blame_sets(Complaints::One& complaint, const std::set<std::string>& needed) const;

 private:
  void join_parts();
  std::string pointer_of(const std::string& keys) const;
  void resolve(Json& path);
  std::string folder_of(const Where& where) const;  // what a relative path written there starts from

  Complaints& complaints_;
  Json root_{};
  struct Set {
    std::string pointer{};  // of what it changes
    Where value{};
  };
  std::vector<Set> changes_{};                    // those that could be made
  std::map<const Source*, std::string> files_{};  // of each: the part
  std::set<const Source*> sets_{};
  std::vector<std::shared_ptr<const Source>> kept_{};  // so that addresses stay theirs
  std::set<std::string> broken_{};
};

}  // namespace motley
