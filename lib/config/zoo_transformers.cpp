// SPDX-License-Identifier: Apache-2.0
#include "config/zoo_transformers.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace motley {

namespace {

using Int = std::int64_t;

// Layers in sequence, of tensors [batch, positions, "hidden"].
class Blocks {
 public:
  Blocks(const ZooChoice& choice, Index hidden, Index heads, Index layers)
      : choice_(choice),
        hidden_(std::max<Index>(1, std::llround(static_cast<double>(hidden) * choice.width))),
        heads_(choice.heads > 0 ? choice.heads : heads),
        layers_(choice.layers > 0 ? choice.layers : layers) {
    if (hidden_ % heads_ != 0)
      throw UserError(std::to_string(heads_) + " heads do not divide the " + std::to_string(hidden_) + " features of \"" +
                      choice.network + "\"; give other \"heads\" or another \"width\"");
  }
  Index hidden() const { return hidden_; }
  Index layers() const { return layers_; }
  std::string last() const { return last_; }
  Json::Array take() { return std::move(list_); }

  void add(const std::string& op, const std::string& name, const std::function<void(Json&)>& keys = {}) {
    Json l;
    l.set("op", op).set("name", name);
    if (keys) keys(l);
    list_.push_back(std::move(l));
    last_ = name;
  }
  void embedding(const std::string& name, double deviation) {
    add("embedding", name, [&](Json& l) {
      l.set("from", choice_.input)
          .set("rows", Json().set("vocabulary", Int{choice_.classes}))
          .set("out", Json().set("hidden", Int{hidden_}));
      normal(l, deviation);
    });
  }
  // A parameter of rows as long as the features.
  void parameter(const std::string& name, const std::string& rows, Index size, double deviation) {
    add("parameter", name, [&](Json& l) {
      l.set("shape", Json().set(rows, Int{size}).set("hidden", Int{hidden_}));
      deviation > 0 ? normal(l, deviation) : static_cast<void>(l.set("initial", "zeros"));
    });
  }
  void slice(const std::string& name, const std::string& in, Index count, const std::string& out) {
    add("slice", name, [&](Json& l) { l.set("in", in).set("range", Json::Array{Int{0}, Int{count}}).set("out", out); });
  }
  void pad(const std::string& name, const std::string& in, const char* side, Index by, const std::string& out, Index size) {
    add("pad", name, [&](Json& l) { l.set("in", in).set(side, Int{by}).set("out", Json().set(out, Int{size})); });
  }
  void sum(const std::string& name, const std::vector<std::string>& of) {
    add("add", name, [&](Json& l) { l.set("from", Json::Array(of.begin(), of.end())); });
  }
  void norm(const std::string& name, double epsilon) {
    add("layer_norm", name, [&](Json& l) { l.set("epsilon", epsilon); });
  }
  void dropout(const std::string& name) {
    add("dropout", name, [](Json& l) { l.set("rate", 0.1); });
  }
  void dense(const std::string& name, const std::string& positions, const std::string& out, Index size,
             const std::string& activation = {}) {
    add("dense", name, [&](Json& l) {
      l.set("keep", Json::Array{choice_.image[0].name, positions}).set("out", Json().set(out, Int{size}));
      if (!activation.empty()) l.set("activation", activation);
    });
  }
  void attention(const std::string& name, bool causal) {
    add("attention", name, [&](Json& l) {
      l.set("heads", Json().set("heads", Int{heads_}));
      if (causal) l.set("causal", true);
    });
  }
  // The scores of the features: products with the rows of the embedding's own weight.
  void tied(const std::string& name, const std::string& embedding, const std::string& positions, bool bias) {
    add("dense", name, [&](Json& l) {
      l.set("keep", Json::Array{choice_.image[0].name, positions}).set("out", "vocabulary").set("weight", embedding);
      if (!bias) l.set("bias", false);
    });
  }

 private:
  static void normal(Json& l, double deviation) { l.set("initial", "normal").set("deviation", deviation); }

  const ZooChoice& choice_;
  Index hidden_, heads_, layers_;
  Json::Array list_{};
  std::string last_{};
};

Index context_of(const ZooChoice& choice, Index published) {
  return choice.context > 0 ? choice.context : std::max(published, choice.image[1].size);
}

// Radford et al., "Language models are unsupervised multitask learners", 2019: 12 layers of 768 features, 1024 positions; names as
// in Hugging Face's GPT-2.
Json::Array gpt(const ZooChoice& choice) {
  Blocks net(choice, 768, 12, 12);
  const std::string positions = choice.image[1].name;
  const Index count = choice.image[1].size, context = context_of(choice, 1024);
  net.parameter("wpe", "context", context, 0.02);
  net.slice("wpe_used", "context", count, positions);
  net.embedding("wte", 0.02);
  net.sum("embedded", {"wte", "wpe_used"});
  net.dropout("drop");
  for (Index k = 0; k < net.layers(); k++) {
    const std::string h = "h." + std::to_string(k), in = net.last();
    net.norm(h + ".ln_1", 1e-5);
    net.attention(h + ".attn", true);
    net.dropout(h + ".attn_drop");
    net.sum(h + ".attended", {in, net.last()});
    const std::string middle = net.last();
    net.norm(h + ".ln_2", 1e-5);
    net.dense(h + ".mlp.c_fc", positions, "inner", 4 * net.hidden(), "gelu_tanh");
    net.dense(h + ".mlp.c_proj", positions, "hidden", net.hidden());
    net.dropout(h + ".mlp_drop");
    net.sum(h, {middle, net.last()});
  }
  net.norm("ln_f", 1e-5);
  net.tied("lm_head", "wte", positions, false);
  return net.take();
}

// Devlin et al., arXiv 1810.04805, base: 12 layers of 768 features, 512 positions, one segment; masked words are predicted. Names
// as in Hugging Face's BertForMaskedLM.
Json::Array bert(const ZooChoice& choice) {
  Blocks net(choice, 768, 12, 12);
  const std::string positions = choice.image[1].name, in = "bert.embeddings.";
  const Index count = choice.image[1].size, context = context_of(choice, 512);
  constexpr double kEpsilon = 1e-12;
  net.parameter(in + "position_embeddings", "context", context, 0.02);
  net.slice("positions_used", "context", count, positions);
  net.parameter(in + "token_type_embeddings", "types", 2, 0.02);
  net.slice("type_used", "types", 1, "type");
  net.add("reshape", "type_features", [&](Json& l) {
    l.set("in", Json::Array{"type", "hidden"}).set("out", Json().set("features", Int{net.hidden()}));
  });
  net.add("rename", "type_row", [](Json& l) { l.set("in", "features").set("out", "hidden"); });
  net.embedding(in + "word_embeddings", 0.02);
  net.sum("embedded", {in + "word_embeddings", "positions_used", "type_row"});
  net.norm(in + "LayerNorm", kEpsilon);
  net.dropout("drop");
  for (Index k = 0; k < net.layers(); k++) {
    const std::string layer = "bert.encoder.layer." + std::to_string(k), from = net.last();
    net.attention(layer + ".attention.self", false);
    net.dropout(layer + ".attention.drop");
    net.sum(layer + ".attention.sum", {net.last(), from});
    net.norm(layer + ".attention.output.LayerNorm", kEpsilon);
    const std::string middle = net.last();
    net.dense(layer + ".intermediate.dense", positions, "inner", 4 * net.hidden(), "gelu");
    net.dense(layer + ".output.dense", positions, "hidden", net.hidden());
    net.dropout(layer + ".drop");
    net.sum(layer + ".sum", {net.last(), middle});
    net.norm(layer + ".output.LayerNorm", kEpsilon);
  }
  net.dense("cls.predictions.transform.dense", positions, "transformed", net.hidden(), "gelu");
  net.add("layer_norm", "cls.predictions.transform.LayerNorm", [&](Json& l) { l.set("epsilon", kEpsilon); });
  net.add("rename", "transformed", [](Json& l) { l.set("in", "transformed").set("out", "hidden"); });
  net.tied("cls.predictions.decoder", in + "word_embeddings", positions, true);
  return net.take();
}

// Dosovitskiy et al., arXiv 2010.11929, ViT-B/16; names as torchvision's.
Json::Array vit(const ZooChoice& choice) {
  constexpr Index kPatch = 16;
  constexpr double kEpsilon = 1e-6;
  const std::vector<Dim>& image = choice.image;
  for (const Dim& d : {image[2], image[3]})
    if (d.size % kPatch != 0)
      throw UserError("vit cuts images into patches of 16 x 16, \"" + d.name + "\" has the size " + std::to_string(d.size));
  Blocks net(choice, 768, 12, 12);
  const Index patches = image[2].size / kPatch * (image[3].size / kPatch), all = patches + 1;
  net.parameter("class_token", "first", 1, 0);
  net.pad("class_padded", "first", "after", patches, "positions", all);
  net.parameter("encoder_pos_embedding", "positions", all, 0.02);
  net.add("conv2d", "conv_proj", [&](Json& l) {
    l.set("from", choice.input)
        .set("out", Json().set("hidden", Int{net.hidden()}))
        .set("window", Int{kPatch})
        .set("stride", Int{kPatch});
  });
  net.add("reshape", "patches", [&](Json& l) {
    l.set("in", Json::Array{image[2].name, image[3].name}).set("out", Json().set("patch", Int{patches}));
  });
  net.add("transpose", "rows_of_patches", [&](Json& l) { l.set("order", Json::Array{image[0].name, "patch", "hidden"}); });
  net.pad("patches_padded", "patch", "before", 1, "positions", all);
  net.sum("embedded", {"patches_padded", "class_padded", "encoder_pos_embedding"});
  net.dropout("encoder_dropout");
  for (Index k = 0; k < net.layers(); k++) {
    const std::string layer = "encoder.layers.encoder_layer_" + std::to_string(k), from = net.last();
    net.norm(layer + ".ln_1", kEpsilon);
    net.attention(layer + ".self_attention", false);
    net.dropout(layer + ".dropout");
    net.sum(layer + ".attended", {net.last(), from});
    const std::string middle = net.last();
    net.norm(layer + ".ln_2", kEpsilon);
    net.dense(layer + ".mlp.0", "positions", "inner", 4 * net.hidden(), "gelu");
    net.dropout(layer + ".mlp.2");
    net.dense(layer + ".mlp.3", "positions", "hidden", net.hidden());
    net.dropout(layer + ".mlp.4");
    net.sum(layer, {middle, net.last()});
  }
  net.norm("encoder_ln", kEpsilon);
  net.slice("class_of_image", "positions", 1, "first");
  net.add("dense", "heads_head", [&](Json& l) { l.set("out", Json().set("classes", Int{choice.classes})); });
  return net.take();
}

}  // namespace

bool reads_tokens(const std::string& network) {
  return network == "gpt" || network == "bert";
}
bool is_transformer(const std::string& network) {
  return reads_tokens(network) || network == "vit";
}

Json::Array transformer_layers(const ZooChoice& choice) {
  return choice.network == "gpt" ? gpt(choice) : choice.network == "bert" ? bert(choice) : vit(choice);
}

}  // namespace motley
