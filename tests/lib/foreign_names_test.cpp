// SPDX-License-Identifier: Apache-2.0
// Weights of other libraries by their names and forms.
#include <catch2/catch.hpp>
#include <numeric>

#include "base/at.h"
#include "weights/foreign_names.h"

using namespace motley;

namespace {

// Values count up from 1,000 times the tensor's number.
class Counted final : public WeightsFile {
 public:
  explicit Counted(std::vector<StoredTensor> tensors, std::map<std::string, std::string> aliases = {})
      : WeightsFile("counted", std::move(tensors), std::move(aliases)) {}
  NpyData read(int tensor) const override {
    const std::string& name = at(tensors(), tensor).name;
    std::vector<float> out(static_cast<std::size_t>(*elements_of(at(tensors(), tensor).extents)));
    std::iota(out.begin(), out.end(), 1000.0F * static_cast<float>(name == tied_ ? find(to_) : tensor));
    return out;
  }
  void tie(const std::string& name, const std::string& to) { tied_ = name, to_ = to; }  // both have the same values

 private:
  std::string tied_{}, to_{};
};

std::vector<float> values(const WeightsFile& file, const std::string& name) {
  const int tensor = file.find(name);
  if (tensor < 0) return {};
  return std::get<std::vector<float>>(file.read(tensor));
}
std::vector<Index> extents(const WeightsFile& file, const std::string& name) {
  const int tensor = file.find(name);
  return tensor < 0 ? std::vector<Index>{-1} : at(file.tensors(), tensor).extents;
}

std::unique_ptr<WeightsFile> own(std::vector<StoredTensor> stored, const std::vector<StoredTensor>& wanted) {
  return in_own_names(std::make_unique<Counted>(std::move(stored)), wanted);
}

const std::string kF = "F32";

}  // namespace

TEST_CASE("weights by name: own files are as they are", "[weights]") {
  const std::vector<StoredTensor> wanted{{"conv.weight", kF, {2, 3, 1, 1}}, {"fc.weight", kF, {2, 3, 2}}, {"fc.bias", kF, {2}}};
  const auto file = own(wanted, wanted);
  CHECK(file->tensors() == wanted);
  CHECK(values(*file, "fc.weight") == std::vector<float>{1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011});
  CHECK(file->read_boxes(1, {{{1, 2}, {0, 3}, {1, 2}}}, {2, 3, 2}).front() == std::vector<double>{1007, 1009, 1011});
}

TEST_CASE("weights by name: a matrix after a flatten, a wrapper's prefix, what steers nothing, what is unknown", "[weights]") {
  const std::vector<StoredTensor> wanted{{"fc.weight", kF, {2, 3, 2}}, {"features.0.bias", kF, {4}}, {"bn1.weight", kF, {3}}};
  const auto file = own({{"module.fc.weight", kF, {2, 6}},
                         {"module.features.0.bias", kF, {5}},
                         {"module.bn1.weight", kF, {3}},
                         {"module.bn1.num_batches_tracked", "I64", {}},
                         {"module.other", kF, {1}}},
                        wanted);
  CHECK(extents(*file, "fc.weight") == std::vector<Index>{2, 3, 2});
  CHECK(extents(*file, "features.0.bias") == std::vector<Index>{5});  // not what is wanted: the caller says so
  CHECK(extents(*file, "bn1.weight") == std::vector<Index>{3});
  CHECK(file->find("module.other") >= 0);
  CHECK(file->tensors().size() == 4);
  CHECK(own({{"module.transformer.h.0.ln_1.weight", kF, {4}}}, {{"h.0.ln_1.weight", kF, {4}}})->find("h.0.ln_1.weight") >= 0);
  CHECK(own({{"_orig_mod.fc.bias", kF, {4}}}, {{"fc.bias", kF, {4}}})->find("fc.bias") >= 0);
  // One tensor is one parameter's alone.
  const auto once = own({{"h.weight", kF, {2, 2}}}, {{"h.weight", kF, {2, 2}}, {"h_weight.weight", kF, {2, 2}}});
  CHECK(once->find("h.weight") >= 0);
  CHECK(once->find("h_weight.weight") < 0);
  // As many elements in other dims are another tensor.
  CHECK(extents(*own({{"w", kF, {3, 2}}}, {{"w", kF, {2, 3}}}), "w") == std::vector<Index>{3, 2});
  CHECK(extents(*own({{"w", kF, {12}}}, {{"w", kF, {2, 3, 2}}}), "w") == std::vector<Index>{12});
  CHECK(extents(*own({{"w.weight", kF, {12}}}, {{"w.weight", kF, {3, 4}}}), "w.weight") == std::vector<Index>{12});
  CHECK(extents(*own({{"w", kF, {4, 3}}}, {{"w", kF, {2, 3, 2}}}), "w") == std::vector<Index>{4, 3});
}

TEST_CASE("weights by name: GPT-2's fused and transposed matrices", "[weights]") {
  // 2 heads of 1, 2 features; 6 x 2 as [in, out]: rows of query, key, value are columns of the file.
  const auto file = own({{"transformer.h.0.attn.c_attn.weight", kF, {2, 6}},
                         {"transformer.h.0.attn.c_attn.bias", kF, {6}},
                         {"transformer.h.0.attn.c_proj.weight", kF, {2, 2}},
                         {"transformer.h.0.mlp.c_fc.weight", kF, {2, 3}},
                         {"transformer.wpe.weight", kF, {4, 2}},
                         {"transformer.h.0.attn.bias", kF, {1, 1, 4, 4}}},
                        {{"h.0.attn.query.weight", kF, {2, 1, 2}},
                         {"h.0.attn.value.weight", kF, {2, 1, 2}},
                         {"h.0.attn.key.bias", kF, {2, 1}},
                         {"h.0.attn.out.weight", kF, {2, 2, 1}},
                         {"h.0.mlp.c_fc.weight", kF, {3, 2}},
                         {"wpe.weight", kF, {4, 2}}});
  CHECK(file->tensors().size() == 6);
  CHECK(values(*file, "h.0.attn.query.weight") == std::vector<float>{0, 6, 1, 7});
  CHECK(values(*file, "h.0.attn.value.weight") == std::vector<float>{4, 10, 5, 11});
  CHECK(file->read_boxes(file->find("h.0.attn.value.weight"), {{{1, 2}, {0, 1}, {0, 2}}}, {2, 1, 2}).front() ==
        std::vector<double>{5, 11});
  CHECK(values(*file, "h.0.attn.key.bias") == std::vector<float>{1002, 1003});
  CHECK(extents(*file, "h.0.attn.key.bias") == std::vector<Index>{2, 1});
  CHECK(values(*file, "h.0.attn.out.weight") == std::vector<float>{2000, 2002, 2001, 2003});
  CHECK(values(*file, "h.0.mlp.c_fc.weight") == std::vector<float>{3000, 3003, 3001, 3004, 3002, 3005});
  CHECK(values(*file, "wpe.weight").front() == 4000);
}

TEST_CASE("weights by name: matrices called as GPT-2's are transposed only where the file's shapes say so", "[weights]") {
  const auto plain = [](float first) { return std::vector<float>{first, first + 1, first + 2, first + 3}; };
  const auto turned = [](float first) { return std::vector<float>{first, first + 2, first + 1, first + 3}; };
  // A network's own file, square or not, with and without biases.
  for (const Index in : {2, 6}) {
    const std::vector<StoredTensor> own_names{{"h.0.c_attn.weight", kF, {2, in}}, {"h.0.c_proj.weight", kF, {2, 2}}};
    CHECK(values(*own(own_names, own_names), "h.0.c_proj.weight") == plain(1000));
    std::vector<StoredTensor> with_biases = own_names;
    with_biases.push_back({"h.0.c_attn.bias", kF, {2}});
    with_biases.push_back({"h.0.c_proj.bias", kF, {2}});
    CHECK(values(*own(with_biases, with_biases), "h.0.c_proj.weight") == plain(1000));
  }
  // PyTorch's Linear: a matrix for a dense weight of three dims, under a prefix.
  const auto linear = own({{"module.h.0.c_attn.weight", kF, {2, 2}}, {"module.h.0.c_proj.weight", kF, {2, 2}}},
                          {{"h.0.c_attn.weight", kF, {2, 2}}, {"h.0.c_proj.weight", kF, {2, 1, 2}}});
  CHECK(values(*linear, "h.0.c_proj.weight") == plain(1000));
  // nanoGPT: GPT-2's names, Linear's matrices. Without biases too.
  for (const bool biases : {true, false}) {
    std::vector<StoredTensor> stored{{"transformer.h.0.attn.c_attn.weight", kF, {6, 2}},
                                     {"transformer.h.0.attn.c_proj.weight", kF, {2, 2}},
                                     {"transformer.h.0.mlp.c_fc.weight", kF, {2, 2}}};
    if (biases) stored.push_back({"transformer.h.0.attn.c_attn.bias", kF, {6}});
    const auto nano =
        own(stored,
            {{"h.0.attn.key.weight", kF, {2, 1, 2}}, {"h.0.attn.out.weight", kF, {2, 2, 1}}, {"h.0.mlp.c_fc.weight", kF, {2, 2}}});
    CHECK(values(*nano, "h.0.attn.key.weight") == plain(4));
    CHECK(values(*nano, "h.0.attn.out.weight") == plain(1000));
    CHECK(values(*nano, "h.0.mlp.c_fc.weight") == plain(2000));
  }
  // GPT-2's file for dense layers of its names; and where only a part of it is read.
  const std::vector<StoredTensor> gpt2{{"h.0.c_attn.weight", kF, {2, 6}},
                                       {"h.0.c_attn.bias", kF, {6}},
                                       {"h.0.c_proj.weight", kF, {2, 2}},
                                       {"h.0.c_proj.bias", kF, {2}}};
  const auto dense = own(gpt2, {{"h.0.c_attn.weight", kF, {6, 2}}, {"h.0.c_proj.weight", kF, {2, 2}}});
  CHECK(values(*dense, "h.0.c_attn.weight") == std::vector<float>{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11});
  CHECK(values(*dense, "h.0.c_proj.weight") == turned(2000));
  // Shapes that contradict each other decide nothing.
  std::vector<StoredTensor> mixed = gpt2;
  mixed.push_back({"h.1.c_fc.weight", kF, {3, 2}});
  mixed.push_back({"h.1.c_fc.bias", kF, {3}});
  CHECK(extents(*own(mixed, {{"h.0.c_attn.weight", kF, {6, 2}}}), "h.0.c_attn.weight") == std::vector<Index>{2, 6});
}

TEST_CASE("weights by name: a weight that layers share, under any of their names", "[weights]") {
  const std::vector<StoredTensor> wanted{{"embed.weight", kF, {3, 2}}, {"norm.bias", kF, {2}}};
  const std::map<std::string, std::string> tied{{"decoder.weight", "embed.weight"}};
  const auto found = [&](const std::vector<StoredTensor>& stored, bool equal, std::map<std::string, std::string> aliases = {}) {
    auto counted = std::make_unique<Counted>(stored, std::move(aliases));
    if (equal) counted->tie("embed.weight", "decoder.weight");
    return in_own_names(std::move(counted), wanted, tied);
  };
  const StoredTensor embed{"embed.weight", kF, {3, 2}}, decoder{"decoder.weight", kF, {3, 2}}, bias{"norm.bias", kF, {2}};
  CHECK(found({embed, bias}, false)->tensors() == wanted);
  CHECK(found({decoder, bias}, false)->tensors() == wanted);
  CHECK(values(*found({bias, decoder}, false), "embed.weight").front() == 1000);
  CHECK(found({decoder, embed, bias}, true)->tensors() == wanted);
  CHECK(found({decoder, embed, bias}, false)->find("decoder.weight") >= 0);  // other values: the caller complains
  CHECK(found({{"module.decoder.weight", kF, {3, 2}}, bias}, false)->find("embed.weight") >= 0);
  // A file that says so itself; also for a network that has the two apart.
  CHECK(found({{"kept.weight", kF, {3, 2}}, bias}, false, {{"embed.weight", "kept.weight"}})->tensors() == wanted);
  const auto apart = in_own_names(std::make_unique<Counted>(std::vector<StoredTensor>{decoder},
                                                            std::map<std::string, std::string>{{"embed.weight", "decoder.weight"}}),
                                  {embed, decoder});
  CHECK(values(*apart, "embed.weight") == values(*apart, "decoder.weight"));
  CHECK(apart->tensors().size() == 2);
}

TEST_CASE("weights by name: what is left out is GPT-2's or BERT's, or a tied weight under its second name", "[weights]") {
  const std::vector<StoredTensor> gpt2{{"h.0.attn.c_attn.weight", kF, {2, 6}},
                                       {"transformer.wte.weight", kF, {7, 2}},
                                       {"lm_head.weight", kF, {7, 2}},
                                       {"h.0.attn.bias", kF, {1, 1, 4, 4}}};
  for (const bool tied : {true, false}) {
    auto stored = std::make_unique<Counted>(gpt2);
    if (tied) stored->tie("lm_head.weight", "transformer.wte.weight");
    const auto file = in_own_names(std::move(stored), {{"wte.weight", kF, {7, 2}}});
    CHECK((file->find("lm_head.weight") < 0) == tied);
    CHECK(file->find("h.0.attn.bias") < 0);
  }
  // Of any other network they are unknown: the caller says so.
  const std::vector<StoredTensor> other{{"dense.weight", kF, {2, 2}},         {"lm_head.weight", kF, {2}},
                                        {"foo.pooler.dense.weight", kF, {2}}, {"x.attn.bias", kF, {1, 1, 2, 2}},
                                        {"x.position_ids", kF, {2}},          {"cls.seq_relationship.bias", kF, {2}}};
  CHECK(own(other, {{"dense.weight", kF, {2, 2}}})->tensors() == other);
}

TEST_CASE("weights by name: BERT's and PyTorch's attention, parameters, norms", "[weights]") {
  const auto bert = own({{"encoder.layer.0.attention.self.query.weight", kF, {2, 2}},
                         {"encoder.layer.0.attention.output.dense.weight", kF, {2, 2}},
                         {"embeddings.LayerNorm.gamma", kF, {2}},
                         {"embeddings.position_ids", "I64", {1, 4}},
                         {"cls.predictions.bias", kF, {5}},
                         {"pooler.dense.weight", kF, {2, 2}}},
                        {{"bert.encoder.layer.0.attention.self.query.weight", kF, {2, 1, 2}},
                         {"bert.encoder.layer.0.attention.self.out.weight", kF, {2, 2, 1}},
                         {"bert.embeddings.LayerNorm.weight", kF, {2}},
                         {"cls.predictions.decoder.bias", kF, {5}}});
  CHECK(bert->tensors().size() == 4);
  CHECK(values(*bert, "bert.encoder.layer.0.attention.self.out.weight").front() == 1000);
  CHECK(values(*bert, "bert.embeddings.LayerNorm.weight").front() == 2000);
  CHECK(values(*bert, "cls.predictions.decoder.bias").front() == 4000);

  const auto vit = own({{"class_token", kF, {1, 1, 2}},
                        {"encoder.pos_embedding", kF, {1, 3, 2}},
                        {"encoder.ln.weight", kF, {2}},
                        {"encoder.layers.encoder_layer_0.self_attention.in_proj_weight", kF, {6, 2}},
                        {"encoder.layers.encoder_layer_0.self_attention.out_proj.bias", kF, {2}}},
                       {{"class_token.weight", kF, {1, 2}},
                        {"encoder_pos_embedding.weight", kF, {3, 2}},
                        {"encoder_ln.weight", kF, {2}},
                        {"encoder.layers.encoder_layer_0.self_attention.key.weight", kF, {1, 2, 2}},
                        {"encoder.layers.encoder_layer_0.self_attention.out.bias", kF, {2}}});
  CHECK(vit->tensors().size() == 5);
  CHECK(extents(*vit, "encoder_pos_embedding.weight") == std::vector<Index>{3, 2});
  CHECK(values(*vit, "encoder_ln.weight").front() == 2000);
  CHECK(values(*vit, "encoder.layers.encoder_layer_0.self_attention.key.weight") == std::vector<float>{3004, 3005, 3006, 3007});
  CHECK(values(*vit, "encoder.layers.encoder_layer_0.self_attention.out.bias").front() == 4000);

  // Of a table of another length the caller learns name and shape.
  const auto longer = own({{"module.encoder.pos_embedding", kF, {1, 3, 2}}}, {{"encoder_pos_embedding.weight", kF, {5, 2}}});
  CHECK(longer->tensors().size() == 1);
  CHECK(extents(*longer, "encoder_pos_embedding.weight") == std::vector<Index>{1, 3, 2});
}

TEST_CASE("weights by name: wrappers' prefixes in any order, also in front of translated names", "[weights]") {
  const std::vector<StoredTensor> wanted{
      {"encoder_pos_embedding.weight", kF, {3, 2}}, {"h.0.attn.key.bias", kF, {2, 1}}, {"cls.predictions.decoder.bias", kF, {5}}};
  for (const std::string prefix : {"", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "module.module."}) {
    INFO(prefix);
    const auto file = own({{prefix + "encoder.pos_embedding", kF, {1, 3, 2}},
                           {prefix + "transformer.h.0.attn.c_attn.weight", kF, {2, 6}},
                           {prefix + "transformer.h.0.attn.c_attn.bias", kF, {6}},
                           {prefix + "transformer.h.0.attn.bias", kF, {1, 1, 4, 4}},
                           {prefix + "cls.predictions.bias", kF, {5}}},
                          wanted);
    CHECK(values(*file, "encoder_pos_embedding.weight").front() == 0);
    CHECK(values(*file, "h.0.attn.key.bias") == std::vector<float>{2002, 2003});
    CHECK(values(*file, "cls.predictions.decoder.bias").front() == 4000);
    CHECK(file->tensors().size() == 4);  // and the weight, which this network lacks
  }
  CHECK(own({{"net._orig_mod.fc.bias", kF, {4}}}, {{"net.fc.bias", kF, {4}}})->find("net.fc.bias") >= 0);  // a part was compiled
  // A network's own names come first.
  const std::vector<StoredTensor> both{{"fc.bias", kF, {4}}, {"module.fc.bias", kF, {4}}};
  CHECK(own(both, both)->tensors() == both);
  CHECK(values(*own(both, both), "module.fc.bias").front() == 1000);
  CHECK(own(both, {{"fc.bias", kF, {4}}})->find("module.fc.bias") >= 0);  // one is too many: the caller says so
}

TEST_CASE("weights by name: a fused matrix beside one of its parts is not left out", "[weights]") {
  for (const std::string separate : {"query", "value"}) {
    const auto file = own({{"attn.in_proj_weight", kF, {6, 2}}, {"attn." + separate + ".weight", kF, {2, 2}}},
                          {{"attn.query.weight", kF, {2, 2}}, {"attn.key.weight", kF, {2, 2}}, {"attn.value.weight", kF, {2, 2}}});
    CHECK(file->find("attn.in_proj_weight") >= 0);
    CHECK(file->tensors().size() == 4);
  }
}
