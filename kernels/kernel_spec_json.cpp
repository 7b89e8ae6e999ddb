// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_spec_json.h"

#include <limits>

#include "kernels/kernel_names.h"

namespace motley {
namespace {

constexpr Index kMost = Index{1} << 53;  // integers that JSON readers keep

struct RoleName {
  const char* name;
  Index Roles::*member;
};
constexpr RoleName kRoles[] = {{"n", &Roles::n}, {"c", &Roles::c}, {"h", &Roles::h}, {"w", &Roles::w}, {"f", &Roles::f},
                               {"r", &Roles::r}, {"s", &Roles::s}, {"p", &Roles::p}, {"q", &Roles::q}};

template <class List>
Json numbers(const List& list) {
  Json::Array array;
  for (const Index value : list) array.push_back(Json(value));
  return Json(std::move(array));
}

Json roles_json(const Roles& roles) {
  Json object;
  for (const RoleName& role : kRoles)
    if (roles.*role.member != Roles{}.*role.member) object.set(role.name, Json(roles.*role.member));
  return object;
}

Json operands_json(const std::vector<FoldOperand>& operands) {
  Json::Array array;
  for (const FoldOperand& operand : operands) {
    Json::Object object;
    if (operand.dtype != DType::f32) object.push_back({"dtype", Json(name_of(operand.dtype)), {}});
    object.push_back({"strides", numbers(operand.strides), {}});
    array.push_back(Json(std::move(object)));
  }
  return Json(std::move(array));
}

// ---- reading

template <class T, class E>
Field<T> choice(const char* name, const char* doc, const std::vector<std::string>& words, E T::*member) {
  return {name, doc, "word", false, [&words, member](Reader& reader, const Json& json, T& out) {
            std::string word;
            if (!reader.text(json, word, words)) return;
            for (std::size_t i = 0; i < words.size(); i++)
              if (words[i] == word) out.*member = static_cast<E>(i);
          }};
}

template <class T>
Field<T> integer(const char* name, const char* doc, Index T::*member, Index least, Index most = kMost) {
  return {name, doc, "integer", false,
          [=](Reader& reader, const Json& json, T& out) { reader.integer(json, out.*member, least, most); }};
}

Field<KernelSpec> number(const char* name, const char* doc, double KernelSpec::*member) {
  return {name, doc, "number", false, [member](Reader& reader, const Json& json, KernelSpec& out) {
            const double most = std::numeric_limits<double>::max();
            reader.number(json, out.*member, -most, most);
          }};
}

void read_integers(Reader& reader, const Json& json, std::vector<Index>& out, Index least) {
  out.clear();
  reader.list(json, [&](const Json& one, std::size_t) {
    out.push_back(0);
    reader.integer(one, out.back(), least, kMost);
  });
}

template <std::size_t N>
Field<KernelSpec> integers(const char* name, const char* doc, std::array<Index, N> KernelSpec::*member, Index least) {
  return {name, doc, "list of " + std::to_string(N) + " integers", false, [=](Reader& reader, const Json& json, KernelSpec& out) {
            std::vector<Index> list;
            read_integers(reader, json, list, least);
            if (list.size() != N) return reader.complain(json, std::to_string(N) + " integers belong here");
            std::copy(list.begin(), list.end(), (out.*member).begin());
          }};
}

const Table<Roles>& role_fields() {
  static const Table<Roles> table = [] {
    Table<Roles> fields;
    for (const RoleName& role : kRoles) fields.push_back(integer<Roles>(role.name, "extent", role.member, 0));
    return fields;
  }();
  return table;
}

const Table<FoldOperand>& operand_fields() {
  static const Table<FoldOperand> table{
      choice("dtype", "element type", kDTypeNames, &FoldOperand::dtype),
      {"strides", "elements, one per fold extent", "list of integers", true,
       [](Reader& reader, const Json& json, FoldOperand& out) { read_integers(reader, json, out.strides, -kMost); }}};
  return table;
}

const Table<KernelSpec>& spec_fields() {
  using S = KernelSpec;
  static const Table<S> table{
      choice("op", "which computation", kKernelOpNames, &S::op),
      choice("pass", "forward or a gradient", kPassKindNames, &S::pass),
      choice("dtype", "of every float operand", kDTypeNames, &S::dtype),
      {"roles", "extents by letter", "object", false,
       [](Reader& reader, const Json& json, S& out) { reader.object(json, role_fields(), out.roles); }},
      integers("stride", "rows, cols", &S::stride, 1),
      integers("dilation", "rows, cols", &S::dilation, 1),
      integers("padding", "top, bottom, left, right", &S::padding, -kMost),
      integers("margin", "of pools: top, bottom, left, right", &S::margin, 0),
      choice("x_format", "of x and dx", kFormatNames, &S::x_format),
      choice("w_format", "of w and dw", kFormatNames, &S::w_format),
      choice("y_format", "of y and dy", kFormatNames, &S::y_format),
      {"bias", "operand b[f]", "true or false", false,
       [](Reader& reader, const Json& json, S& out) { reader.boolean(json, out.bias); }},
      {"accumulate", "y is added to", "true or false", false,
       [](Reader& reader, const Json& json, S& out) { reader.boolean(json, out.accumulate); }},
      choice("activation", "epilogue", kActivationNames, &S::activation),
      choice("fold", "pointwise function", kFoldKindNames, &S::fold),
      choice("combine", "how results meet", kCombineNames, &S::combine),
      number("scale", "factor of the function", &S::scale),
      {"fold_extents", "extents of the fold", "list of integers", false,
       [](Reader& reader, const Json& json, S& out) { read_integers(reader, json, out.fold_extents, 0); }},
      {"operands", "of the fold, result last", "list", false,
       [](Reader& reader, const Json& json, S& out) {
         out.operands.clear();
         reader.list(json, [&](const Json& one, std::size_t) {
           out.operands.emplace_back();
           if (!reader.object(one, operand_fields(), out.operands.back())) return;
           if (out.operands.back().strides.size() != out.fold_extents.size())
             reader.complain(one, std::to_string(out.fold_extents.size()) + " strides belong here, one per fold extent");
         });
       }},
      {"class_dim", "fold extent over classes", "integer", false,
       [](Reader& reader, const Json& json, S& out) {
         std::int64_t value = out.class_dim;
         if (reader.integer(json, value, -1, 64)) out.class_dim = static_cast<int>(value);
       }},
      integer<S>("first_class", "global index of that extent's 0", &S::first_class, 0),
      number("learning_rate", "of sgd", &S::learning_rate),
      number("momentum", "of sgd", &S::momentum),
      number("weight_decay", "of sgd", &S::weight_decay)};
  return table;
}

}  // namespace

Json to_json_value(const KernelSpec& spec) {
  const KernelSpec defaults;
  Json json{Json::Object{}};
  const auto word = [&](const char* key, auto member) {
    if (spec.*member != defaults.*member) json.set(key, Json(name_of(spec.*member)));
  };
  const auto list = [&](const char* key, auto member) {
    if (spec.*member != defaults.*member) json.set(key, numbers(spec.*member));
  };
  const auto scalar = [&](const char* key, auto member) {
    if (spec.*member != defaults.*member) json.set(key, Json(spec.*member));
  };
  word("op", &KernelSpec::op);
  word("pass", &KernelSpec::pass);
  word("dtype", &KernelSpec::dtype);
  if (spec.roles != defaults.roles) json.set("roles", roles_json(spec.roles));
  list("stride", &KernelSpec::stride);
  list("dilation", &KernelSpec::dilation);
  list("padding", &KernelSpec::padding);
  list("margin", &KernelSpec::margin);
  word("x_format", &KernelSpec::x_format);
  word("w_format", &KernelSpec::w_format);
  word("y_format", &KernelSpec::y_format);
  scalar("bias", &KernelSpec::bias);
  scalar("accumulate", &KernelSpec::accumulate);
  word("activation", &KernelSpec::activation);
  word("fold", &KernelSpec::fold);
  word("combine", &KernelSpec::combine);
  scalar("scale", &KernelSpec::scale);
  list("fold_extents", &KernelSpec::fold_extents);
  if (!spec.operands.empty()) json.set("operands", operands_json(spec.operands));
  scalar("class_dim", &KernelSpec::class_dim);
  scalar("first_class", &KernelSpec::first_class);
  scalar("learning_rate", &KernelSpec::learning_rate);
  scalar("momentum", &KernelSpec::momentum);
  scalar("weight_decay", &KernelSpec::weight_decay);
  return json;
}

std::string to_json(const KernelSpec& spec) {
  return to_text(to_json_value(spec));
}

KernelSpec kernel_spec_from_json(const Json& json) {
  KernelSpec spec;
  Complaints complaints;
  Reader reader{complaints};
  reader.object(json, spec_fields(), spec);
  complaints.raise();
  return spec;
}

}  // namespace motley
