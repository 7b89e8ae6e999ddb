// SPDX-License-Identifier: Apache-2.0
#include "graph/name_patterns.h"

#include <motley/dims.h>

#include <algorithm>
#include <set>

namespace motley {

namespace {

bool matches_all_of(const std::string& pattern, const std::string& name) {
  std::size_t p = 0, n = 0, star = std::string::npos, after = 0;  // after: where what the last `*` stands for ends so far
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      p++, n++;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++after;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') p++;
  return p == pattern.size();
}

}  // namespace

bool matches_name(const std::string& pattern, const std::string& name) {
  return !pattern.empty() && (matches_all_of(pattern, name) || matches_all_of(pattern + ".*", name));
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches_name(p, name); });
}

std::string wrong_pattern(const std::string& pattern, const std::vector<std::string>& names) {
  if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches_name(pattern, name); })) return "";
  std::set<std::string> known;  // patterns in the form of the wrong one
  const bool below = pattern.ends_with(".*"), ends = pattern.starts_with("*.");
  for (const std::string& name : names) {
    if (ends) known.insert("*" + name.substr(std::min(name.rfind('.'), name.size())));
    for (std::size_t dot = 0; !ends && dot != std::string::npos;) {
      dot = name.find('.', dot + 1);
      if (!below || dot != std::string::npos) known.insert(name.substr(0, dot) + (below ? ".*" : ""));
    }
  }
  const std::string meant = probably_meant(pattern, {known.begin(), known.end()});
  return "\"" + pattern + "\" matches no parameter" +
         (!meant.empty()  ? "; did you mean \"" + meant + "\"?"
          : names.empty() ? ""
                          : "; one of the names is \"" + names.front() + "\"");
}

}  // namespace motley
