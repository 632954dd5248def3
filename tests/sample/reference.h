#pragma once
// The samplers in float64 by full sorts and naive searches, from their definitions. The library's fast
// selections, fixed-point weights and block maxima are compared with them and share no code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "common/strings.h"
#include "src/sample/params.h"

namespace tessera::sample::test {

class Reference {
  public:
    struct Token {
        int32_t id;
        double logit, p;
    };
    using Distribution = std::map<int32_t, double>;

    explicit Reference(const Params& params) : params_(params) {
        mu_ = 2 * number("mirostat_tau");
        mass_ = 1 / (1 - number("adaptive_decay"));
        sum_ = number("adaptive_target") * mass_;
    }

    void accept_prompt(int32_t id) { text_.push_back(id); }
    /// Accepts a token that was drawn from the last distribution().
    void accept_drawn(int32_t id) {
        text_.push_back(id);
        mu_ -= number("mirostat_eta") * (-std::log2(last_.at(id)) - number("mirostat_tau"));
        if (original_.contains(id)) {
            sum_ = original_.at(id) + number("adaptive_decay") * sum_;
            mass_ = 1 + number("adaptive_decay") * mass_;
        }
    }

    Distribution distribution(const std::vector<float>& logits) {
        tokens_.clear();
        for (size_t i = 0; i < logits.size(); i++)
            tokens_.push_back({static_cast<int32_t>(i), static_cast<double>(logits[i]), 0});
        n_vocab_ = logits.size();
        std::string order = params_.text("samplers");
        if (order.empty()) {
            order =
                "penalties;dry;no_repeat_ngram;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature;adaptive_"
                "p";
            if (number("mirostat") > 0) order = "temperature;mirostat";
        }
        for (const std::string_view name : split(order, ';')) apply(name);
        softmax();
        last_.clear();
        for (const Token& t : tokens_) last_[t.id] = t.p;
        return last_;
    }

  private:
    double number(const char* name) const { return params_.number(name); }
    size_t min_keep() const { return static_cast<size_t>(number("min_keep")); }

    void apply(std::string_view name) {
        if (name == "penalties") return penalties();
        if (name == "dry") return dry();
        if (name == "no_repeat_ngram") return no_repeat_ngram();
        if (name == "top_n_sigma") return top_n_sigma();
        if (name == "top_k")
            return number("top_k") > 0 ? keep_best(static_cast<size_t>(number("top_k"))) : void();
        if (name == "typ_p") return typical();
        if (name == "top_p") return top_p();
        if (name == "min_p") return min_p();
        if (name == "xtc") return xtc();
        if (name == "temperature") return temperature();
        if (name == "adaptive_p") return adaptive();
        if (name == "mirostat") return number("mirostat") == 1 ? mirostat1() : mirostat2();
        ADD_FAILURE() << "no such sampler: " << name;
    }

    void sort() {
        std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) {
            return std::pair(-a.logit, a.id) < std::pair(-b.logit, b.id);
        });
    }
    void softmax() {
        double best = -std::numeric_limits<double>::infinity(), total = 0;
        for (const Token& t : tokens_) best = std::max(best, t.logit);
        for (Token& t : tokens_) total += t.p = std::exp(t.logit - best);
        for (Token& t : tokens_) t.p /= total;
    }
    void keep_best(size_t k) {
        sort();
        tokens_.resize(std::min(k, tokens_.size()));
    }

    void penalties() {
        std::map<int32_t, int> counts;
        const double last_n = number("repeat_last_n");
        const size_t n = last_n < 0 ? text_.size() : std::min(text_.size(), static_cast<size_t>(last_n));
        for (size_t i = text_.size() - n; i < text_.size(); i++) counts[text_[i]]++;
        for (Token& t : tokens_) {
            if (!counts.contains(t.id)) continue;
            t.logit = t.logit > 0 ? t.logit / number("repeat_penalty") : t.logit * number("repeat_penalty");
            t.logit -= number("presence_penalty") + counts[t.id] * number("frequency_penalty");
        }
    }

    /// For every position of the last n tokens, the number of tokens before it that equal the end of the
    /// text.
    std::vector<std::pair<int32_t, size_t>> repeats(size_t n) const {
        std::vector<std::pair<int32_t, size_t>> found;
        n = std::min(n, text_.size());
        const size_t begin = text_.size() - n;
        for (size_t next = begin; next < text_.size(); next++) {
            size_t length = 0;
            while (length < next - begin && text_[next - 1 - length] == text_[text_.size() - 1 - length])
                length++;
            found.emplace_back(text_[next], length);
        }
        return found;
    }

    void dry() {
        const double last_n = number("dry_penalty_last_n"), allowed = number("dry_allowed_length");
        if (number("dry_multiplier") == 0 || last_n == 0) return;
        std::map<int32_t, size_t> longest;
        for (const auto& [id, length] : repeats(last_n < 0 ? text_.size() : static_cast<size_t>(last_n)))
            longest[id] = std::max(longest[id], length);
        for (Token& t : tokens_) {
            const auto length = static_cast<double>(longest.contains(t.id) ? longest[t.id] : 0);
            if (length >= allowed)
                t.logit -= number("dry_multiplier") * std::pow(number("dry_base"), length - allowed);
        }
    }

    void no_repeat_ngram() {
        const auto n = static_cast<size_t>(number("no_repeat_ngram_size"));
        if (n == 0) return;
        for (const auto& [id, length] : repeats(text_.size())) {
            if (length + 1 < n) continue;
            for (Token& t : tokens_) {
                if (t.id == id) t.logit = -std::numeric_limits<double>::infinity();
            }
        }
    }

    void top_n_sigma() {
        if (number("top_n_sigma") <= 0) return;
        double best = -std::numeric_limits<double>::infinity(), sum = 0, squares = 0, n = 0;
        for (const Token& t : tokens_) {
            best = std::max(best, t.logit);
            if (std::isfinite(t.logit)) sum += t.logit, n++;
        }
        for (const Token& t : tokens_) {
            if (std::isfinite(t.logit)) squares += (t.logit - sum / n) * (t.logit - sum / n);
        }
        const double least = best - number("top_n_sigma") * std::sqrt(squares / n);
        std::erase_if(tokens_, [&](const Token& t) { return t.logit < least; });
    }

    void typical() {
        if (number("typical_p") >= 1) return;
        softmax();
        sort();
        double entropy = 0;
        for (const Token& t : tokens_) entropy -= t.p > 0 ? t.p * std::log(t.p) : 0;
        const auto strangeness = [&](const Token& t) { return std::abs(-std::log(t.p) - entropy); };
        std::stable_sort(tokens_.begin(), tokens_.end(),
                         [&](const Token& a, const Token& b) { return strangeness(a) < strangeness(b); });
        double mass = 0;
        size_t n = 0;
        while (n < tokens_.size() && (mass <= number("typical_p") || n < min_keep())) mass += tokens_[n++].p;
        tokens_.resize(n);
    }

    void top_p() {
        if (number("top_p") >= 1) return;
        softmax();
        sort();
        double mass = 0;
        size_t n = 0;
        do mass += tokens_[n++].p;
        while (n < tokens_.size() && (mass < number("top_p") || n < min_keep()));
        tokens_.resize(n);
    }

    void min_p() {
        sort();
        size_t n = 0;
        while (n < tokens_.size() &&
               (n < min_keep() || std::exp(tokens_[n].logit - tokens_[0].logit) >= number("min_p")))
            n++;
        tokens_.resize(n);
    }

    void xtc() {
        if (number("xtc_probability") == 0 || number("xtc_threshold") > 0.5) return;
        softmax();
        sort();
        size_t n = 0;
        while (n < tokens_.size() && tokens_[n].p >= number("xtc_threshold")) n++;
        if (n < 2 || tokens_.size() - (n - 1) < min_keep()) return;
        tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(n - 1));
    }

    void temperature() {
        double t = number("temperature");
        const double range = number("dynatemp_range");
        if (range > 0) {
            if (tokens_.size() == 1) return;
            softmax();
            double entropy = 0;
            for (const Token& token : tokens_) entropy -= token.p > 0 ? token.p * std::log(token.p) : 0;
            const double lowest = std::max(0.0, t - range);
            const double share = entropy / std::log(static_cast<double>(tokens_.size()));
            t = lowest + (t + range - lowest) * std::pow(share, number("dynatemp_exponent"));
        }
        if (t <= 0) return keep_best(1);
        for (Token& token : tokens_) token.logit /= t;
    }

    void adaptive() {
        original_.clear();
        if (number("adaptive_target") < 0) return;
        softmax();
        const double target = std::clamp(2 * number("adaptive_target") - sum_ / mass_, 0.0, 1.0);
        for (Token& t : tokens_) {
            original_[t.id] = t.p;
            const double d = std::abs(t.p - target) / 0.3;
            t.logit = 5 - 10 * d * d / (1 + d);
        }
    }

    void mirostat1() {
        softmax();
        sort();
        double products = 0, squares = 0;
        for (size_t i = 0; i < 99 && i + 1 < tokens_.size(); i++) {
            const double rank = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
            products += rank * std::log(tokens_[i].p / tokens_[i + 1].p);
            squares += rank * rank;
        }
        const double s = products / squares, e = s - 1;
        const double k =
            std::pow(e * std::pow(2, mu_) / (1 - std::pow(static_cast<double>(n_vocab_), -e)), 1 / s);
        keep_best(static_cast<size_t>(std::clamp(k, 1.0, static_cast<double>(tokens_.size()))));
    }

    void mirostat2() {
        softmax();
        sort();
        size_t n = 1;
        while (n < tokens_.size() && -std::log2(tokens_[n].p) <= mu_) n++;
        tokens_.resize(n);
    }

    Params params_;
    std::vector<int32_t> text_;
    std::vector<Token> tokens_;
    Distribution last_, original_;
    size_t n_vocab_ = 0;
    double mu_ = 0, sum_ = 0, mass_ = 0;
};

}  // namespace tessera::sample::test
