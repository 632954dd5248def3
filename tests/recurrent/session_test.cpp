// Sessions of a model with recurrent layers: whatever happened to the text before, the logits are those of a
// new session that computes the same tokens at once.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/hash.h"
#include "common/rng.h"
#include "src/engine/plan.h"
#include "tests/engine/support.h"
#include "tests/recurrent/decay_mixer.h"
#include "tests/support/temp_folder.h"

namespace tessera::engine {
namespace {

using test::joined;
using MixedSession = test::Mixed<Session>;

const std::string kPath = test::model_file("llama");

std::vector<int32_t> random_tokens(Rng& rng, size_t n) {
    std::vector<int32_t> out(n);
    for (int32_t& id : out) id = 1 + static_cast<int32_t>(rng.next_u64() % 3);
    return out;
}

std::vector<float> logits_of(const Session& session) {
    return {session.logits().begin(), session.logits().end()};
}

class RecurrentSessions : public testing::Test {
  protected:
    RecurrentSessions() : pool_(2), loaded_(test::load_recurrent(kPath, pool_)) {}

    MixedSession session(const SessionOptions& options) {
        return MixedSession(Session::create(loaded_.model, pool_, options));
    }
    /// Logits after the tokens, by a new session.
    std::vector<float> fresh(std::span<const int32_t> tokens) {
        const auto one = session({.n_ctx = 4096, .n_batch = 4096});
        EXPECT_TRUE(one->eval(tokens).has_value());
        return logits_of(*one);
    }
    void expect_fresh(const Session& one) {
        ASSERT_TRUE(one.has_logits());
        EXPECT_EQ(logits_of(one), fresh(one.tokens()));
    }

    ThreadPool pool_;
    Loaded loaded_;
    Rng rng_{3};
};

TEST_F(RecurrentSessions, the_state_matters) {
    // Else the other tests would show nothing.
    auto plain = Session::create(loaded_.model, pool_, {.n_ctx = 64});
    ASSERT_TRUE(plain.has_value());
    const auto tokens = random_tokens(rng_, 20);
    ASSERT_TRUE((*plain)->eval(tokens).has_value());
    EXPECT_NE(logits_of(**plain), fresh(tokens));
    // The first token changes the logits of the last, also through the recurrent layers alone.
    auto other = tokens;
    other[0] += 1;
    EXPECT_NE(fresh(other), fresh(tokens));
}

TEST_F(RecurrentSessions, chunks_of_any_size) {
    const auto tokens = random_tokens(rng_, 1300);
    const std::vector<float> expected = fresh(tokens);
    for (const int64_t n_batch : {1, 37, 64, 512}) {
        const auto one = session({.n_ctx = 1400, .n_batch = n_batch});
        for (size_t at = 0; at < tokens.size();) {
            const size_t n = std::min<size_t>(tokens.size() - at, 1 + rng_.next_u64() % 200);
            ASSERT_TRUE(one->eval(std::span(tokens).subspan(at, n)).has_value());
            at += n;
        }
        EXPECT_EQ(logits_of(*one), expected) << n_batch;
    }
}

TEST_F(RecurrentSessions, rows_of_every_token) {
    const auto tokens = random_tokens(rng_, 150);
    const auto one = session({.n_ctx = 256, .n_batch = 64, .max_out = 16});
    ASSERT_TRUE(one->eval(std::span(tokens).first(100)).has_value());
    one->truncate(90);  // the next call computes some tokens before its own again
    int64_t n_rows = 0;
    const auto done =
        one->eval_all(std::span(tokens).subspan(90, 50), [&](int64_t first, int64_t n, const float* rows) {
            EXPECT_EQ(first, n_rows);
            const auto n_vocab = static_cast<size_t>(loaded_.model->hparams().n_vocab);
            const std::vector<float> last(rows + static_cast<size_t>(n - 1) * n_vocab,
                                          rows + static_cast<size_t>(n) * n_vocab);
            n_rows += n;
            EXPECT_EQ(last, fresh(std::span(tokens).first(static_cast<size_t>(90 + n_rows))));
            return n_rows < 30;
        });
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(one->n_tok(), 90 + n_rows);
    ASSERT_TRUE(one->eval(std::span(tokens).subspan(static_cast<size_t>(90 + n_rows))).has_value());
    EXPECT_EQ(logits_of(*one), fresh(tokens));
}

TEST_F(RecurrentSessions, an_edit_keeps_what_a_checkpoint_allows) {
    const auto one = session({.n_ctx = 2048});
    auto text = random_tokens(rng_, 1200);
    EXPECT_EQ(*one->sync(text), 0);
    expect_fresh(*one);
    EXPECT_EQ(*one->sync(text), 1152);  // the last page border before its last token
    expect_fresh(*one);
    text.resize(1190);
    text.push_back(9);
    EXPECT_EQ(*one->sync(text), 1152);
    expect_fresh(*one);
    text.resize(1100);  // between two checkpoints
    text.push_back(9);
    EXPECT_EQ(*one->sync(text), 1024);
    expect_fresh(*one);
    text[500] = 9;
    EXPECT_EQ(*one->sync(text), 0);
    expect_fresh(*one);
}

TEST_F(RecurrentSessions, undo_goes_to_the_start_of_a_prompt) {
    const auto one = session({.n_ctx = 512});
    ASSERT_TRUE(one->eval(random_tokens(rng_, 40)).has_value());
    for (const int32_t id : random_tokens(rng_, 10)) ASSERT_TRUE(one->eval({&id, 1}).has_value());
    ASSERT_TRUE(one->eval(random_tokens(rng_, 20)).has_value());
    int n_ops = 0;
    one.mixer->before_op = [&n_ops](int) { ++n_ops; };
    one->truncate(50);
    EXPECT_EQ(one->n_tok(), 50);
    EXPECT_FALSE(one->has_logits());
    const std::vector<int32_t> next = {5};
    ASSERT_TRUE(one->eval(next).has_value());
    const int n_of_one_pass = std::exchange(n_ops, 0);
    expect_fresh(*one);
    ASSERT_TRUE(one->eval(next).has_value());
    EXPECT_EQ(n_ops, n_of_one_pass);
    // Within the generated tokens: those since the prompt's end are computed again.
    one->truncate(45);
    EXPECT_EQ(one->n_tok(), 45);
    ASSERT_TRUE(one->eval(next).has_value());
    EXPECT_EQ(one->n_tok(), 46);
    expect_fresh(*one);
}

TEST_F(RecurrentSessions, an_aborted_pass_changes_nothing) {
    const auto one = session({.n_ctx = 1024, .n_batch = 64});
    std::atomic<bool> abort{false};
    pool_.set_abort_flag(&abort);
    const auto tokens = random_tokens(rng_, 500);
    ASSERT_TRUE(one->eval(std::span(tokens).first(100)).has_value());
    for (const int at : {0, 2, 3, 7, 20, 40, 60}) {
        // In the first passes or in later ones, before and after the states were written.
        int n_ops = 0;
        one.mixer->before_op = [&](int) { abort.store(n_ops++ >= at); };
        const auto cancelled = one->eval(std::span(tokens).subspan(100));
        one.mixer->before_op = {};
        abort.store(false);
        ASSERT_FALSE(cancelled.has_value()) << at;
        EXPECT_EQ(cancelled.error().code, ErrorCode::Cancelled);
        EXPECT_EQ(one->n_tok(), 100);
        EXPECT_FALSE(one->has_logits());
        const std::vector<int32_t> next = {2};
        ASSERT_TRUE(one->eval(next).has_value());
        pool_.set_abort_flag(nullptr);
        expect_fresh(*one);
        pool_.set_abort_flag(&abort);
        one->truncate(100);
    }
    ASSERT_TRUE(one->eval(std::span(tokens).subspan(100)).has_value());
    pool_.set_abort_flag(nullptr);
    EXPECT_EQ(logits_of(*one), fresh(tokens));
}

TEST_F(RecurrentSessions, a_restored_session_goes_on) {
    const test::TempFolder folder;
    for (const size_t n : {1u, 64u, 1100u}) {
        const auto first = session({.n_ctx = 1400}), second = session({.n_ctx = 1200});
        auto tokens = random_tokens(rng_, n + 30);
        ASSERT_TRUE(first->eval(std::span(tokens).first(n)).has_value());
        ASSERT_TRUE(first->save(folder.at("saved")).has_value());
        const auto restored = second->restore(folder.at("saved"));
        ASSERT_TRUE(restored.has_value()) << restored.error().message;
        EXPECT_EQ(second->n_tok(), static_cast<int64_t>(n));
        ASSERT_TRUE(second->eval(std::span(tokens).subspan(n)).has_value());
        EXPECT_EQ(logits_of(*second), fresh(tokens));
        // Its checkpoints were saved too.
        tokens.resize(n);
        tokens.push_back(4);
        EXPECT_EQ(*second->sync(tokens), static_cast<int64_t>(n));
        expect_fresh(*second);
        // Tokens that a rewind left to be computed are saved as such.
        first->truncate(static_cast<int64_t>(n) - 1);
        if (n == 1) continue;
        ASSERT_TRUE(first->save(folder.at("saved")).has_value());
        ASSERT_TRUE(second->restore(folder.at("saved")).has_value());
        EXPECT_EQ(second->n_tok(), static_cast<int64_t>(n) - 1);
        ASSERT_TRUE(second->eval(std::vector<int32_t>{3}).has_value());
        expect_fresh(*second);
    }
}

TEST_F(RecurrentSessions, damaged_files_are_refused) {
    const test::TempFolder folder;
    const auto one = session({.n_ctx = 128});
    ASSERT_TRUE(one->eval(random_tokens(rng_, 70)).has_value());
    ASSERT_TRUE(one->save(folder.at("saved")).has_value());
    const std::string whole = test::read_file(folder.at("saved"));
    ASSERT_EQ(whole.substr(0, 8), "TSRSESS2");
    const auto refused = [&](const std::string& bytes, const char* says) {
        const auto result = one->restore(folder.write("bad", bytes));
        ASSERT_FALSE(result.has_value()) << says;
        EXPECT_NE(result.error().message.find(says), std::string::npos) << result.error().message;
        EXPECT_EQ(one->n_tok(), 0);
    };
    // Every byte of the headers and tokens, and of the states; the pages between them are of one kind.
    const auto is_page = [&whole](size_t at) { return at > 400 && at + 900 < whole.size(); };
    for (size_t n = 0; n < whole.size(); n += is_page(n) ? 797 : 1) refused(whole.substr(0, n), "bad");
    for (size_t at = 0; at < whole.size(); at += is_page(at) ? 809 : 7) {
        std::string hurt = whole;
        hurt[at] = static_cast<char>(hurt[at] ^ 0x10);
        refused(hurt, "bad");
    }
    // Counts that would overflow or lead outside.
    for (const size_t at : {size_t{40}, size_t{48}, size_t{56}})
        for (const char byte : {'\0', '\x7f', '\xff'}) {
            std::string hurt = whole;
            std::fill_n(hurt.begin() + static_cast<std::ptrdiff_t>(at), 8, byte);
            refused(hurt, "bad");
        }
    const Loaded wider = test::load_recurrent(kPath, pool_);
    const_cast<Hparams&>(wider.model->hparams()).layers[0].state_floats *= 2;
    const auto other = (*Session::create(wider.model, pool_, {.n_ctx = 128}))->restore(folder.at("saved"));
    ASSERT_FALSE(other.has_value());
    EXPECT_NE(other.error().message.find("bytes of a state"), std::string::npos) << other.error().message;
    EXPECT_TRUE(one->restore(folder.at("saved")).has_value());
}

/// A file with the checksum that its bytes should have: that of the pieces in their order.
std::string with_checksum(std::string file, size_t n_tok, size_t page_bytes, size_t slot_bytes) {
    Hash64 hash;
    size_t at = 0;
    const auto add = [&](size_t n) {
        hash.add(std::as_bytes(std::span(file)).subspan(at, n));
        at += n;
    };
    for (const size_t n : {size_t{40}, size_t{24}, 4 * n_tok}) add(n);
    for (size_t i = 0; i < (n_tok + 63) / 64; ++i) add(page_bytes);
    while (at + 8 < file.size()) {
        add(8);
        add(slot_bytes);
    }
    const uint64_t checksum = hash.value();
    std::memcpy(file.data() + at, &checksum, sizeof checksum);
    return file;
}

TEST_F(RecurrentSessions, impossible_positions_and_tokens_are_refused) {
    const test::TempFolder folder;
    const auto one = session({.n_ctx = 128});
    ASSERT_TRUE(one->eval(random_tokens(rng_, 70)).has_value());
    ASSERT_TRUE(one->save(folder.at("saved")).has_value());
    const std::string whole = test::read_file(folder.at("saved"));
    const size_t page_bytes = one->layout().page_bytes, slot_bytes = one->state_layout().slot_bytes;
    EXPECT_EQ(with_checksum(whole, 70, page_bytes, slot_bytes), whole);
    const size_t first = 64 + 4 * 70 + 2 * page_bytes, last = whole.size() - 8 - slot_bytes - 8;
    for (const size_t at : {first, last})
        for (const int64_t position : {int64_t{-1}, int64_t{0}, int64_t{71}, INT64_MAX, INT64_MIN}) {
            std::string hurt = whole;
            std::memcpy(hurt.data() + at, &position, sizeof position);
            const auto refused =
                one->restore(folder.write("bad", with_checksum(hurt, 70, page_bytes, slot_bytes)));
            ASSERT_FALSE(refused.has_value()) << position;
            EXPECT_NE(refused.error().message.find("ascending positions"), std::string::npos)
                << refused.error().message;
        }
    // A token outside the vocabulary, which a rewind would compute again.
    for (const int32_t id : {-1, INT32_MAX}) {
        std::string hurt = whole;
        std::memcpy(hurt.data() + 64 + 4 * 69, &id, sizeof id);
        const auto refused =
            one->restore(folder.write("bad", with_checksum(hurt, 70, page_bytes, slot_bytes)));
        ASSERT_FALSE(refused.has_value()) << id;
        EXPECT_NE(refused.error().message.find("token 69: expected an id from 0 to"), std::string::npos)
            << refused.error().message;
        EXPECT_EQ(one->n_tok(), 0);
    }
    // No state at all.
    std::string hurt = whole.substr(0, first) + std::string(8, '\0');
    std::fill_n(hurt.begin() + 56, 8, '\0');
    const auto refused = one->restore(folder.write("bad", with_checksum(hurt, 70, page_bytes, slot_bytes)));
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find("ascending positions"), std::string::npos);
}

/// Any order of operations, with few checkpoints.
TEST_F(RecurrentSessions, random_operations) {
    const test::TempFolder folder;
    const auto one = session({.n_ctx = 1500, .n_batch = 100});
    std::atomic<bool> abort{false};
    for (int round = 0; round < 60; ++round) {
        const auto n_tok = static_cast<size_t>(one->n_tok());
        const auto tokens = random_tokens(rng_, 1 + rng_.next_u64() % (rng_.next_u64() % 3 == 0 ? 400 : 5));
        switch (rng_.next_u64() % 6) {
            case 0:
                one->truncate(static_cast<int64_t>(rng_.next_u64() % (n_tok + 1)));
                break;
            case 1: {
                std::vector<int32_t> text(one->tokens().begin(), one->tokens().end());
                text.resize(rng_.next_u64() % (n_tok + 1));
                text.insert(text.end(), tokens.begin(), tokens.end());
                if (text.size() > 1500) break;
                ASSERT_TRUE(one->sync(text).has_value());
                EXPECT_TRUE(std::ranges::equal(one->tokens(), text));
                break;
            }
            case 2:
                ASSERT_TRUE(one->save(folder.at("saved")).has_value());
                ASSERT_TRUE(one->restore(folder.at("saved")).has_value());
                EXPECT_EQ(one->n_tok(), static_cast<int64_t>(n_tok));
                break;
            case 3: {
                pool_.set_abort_flag(&abort);
                int left = static_cast<int>(rng_.next_u64() % 100);
                one.mixer->before_op = [&](int) { abort.store(--left < 0); };
                const bool done = one->eval(tokens).has_value();
                one.mixer->before_op = {};
                pool_.set_abort_flag(nullptr);
                EXPECT_EQ(one->n_tok(), static_cast<int64_t>(n_tok + (done ? tokens.size() : 0)));
                break;
            }
            default:
                if (n_tok + tokens.size() > 1500) break;
                ASSERT_TRUE(one->eval(tokens).has_value());
        }
        if (one->has_logits()) expect_fresh(*one);
        if (HasFailure()) FAIL() << round;
    }
}

/// Records whether any segment has a state.
class StateSpy : public Backend {
  public:
    explicit StateSpy(Backend& inner) : inner_(&inner) {}
    void run(const Op& op) override {
        if (const auto* const attend = std::get_if<AttendOp<Direct>>(&op))
            for (const Segment& segment : attend->segments)
                has_state = has_state || segment.state_in || segment.state_out;
        inner_->run(op);
    }
    bool has_state = false;

  private:
    Backend* inner_;
};

TEST_F(RecurrentSessions, other_models_have_no_states) {
    const Loaded plain = load_or_die(kPath, pool_);
    const CachePlan plan = *plan_cache(*plain.model, {.n_ctx = 2048});
    EXPECT_EQ(plan.n_states, 0);
    EXPECT_EQ(plan.states.slot_bytes, 0u);
    EXPECT_EQ(plan_memory(*plain.model, {{.n_ctx = 2048}, 4}, 1)->states, 0u);
    const auto one = *Session::create(plain.model, pool_, {.n_ctx = 2048, .n_batch = 2048});
    StateSpy spy(one->backend());
    one->compute_through(&spy);
    ASSERT_TRUE(one->eval(random_tokens(rng_, 1500)).has_value());
    one->truncate(1111);  // any position
    EXPECT_EQ(*one->sync(joined(one->tokens(), std::vector<int32_t>{2, 1})), 1111);
    EXPECT_FALSE(spy.has_state);
    EXPECT_EQ(one->kv_bytes(), plan.layout.page_bytes * 32);
}

TEST_F(RecurrentSessions, plans_count_the_state) {
    const SessionOptions options{.n_ctx = 256};
    const CachePlan plan = *plan_cache(*loaded_.model, options);
    const auto q_bytes = static_cast<uint64_t>(loaded_.model->hparams().layers[0].n_attn()) * sizeof(float);
    EXPECT_EQ(plan.states.slot_bytes, q_bytes);
    EXPECT_EQ(plan.n_states, 5);
    const MemoryPlan memory = *plan_memory(*loaded_.model, {options, 4}, 1);
    EXPECT_EQ(memory.states, (1 + 4 * 5) * q_bytes);
    EXPECT_NE(to_text(memory).find("of recurrent layers"), std::string::npos);
    const auto one = session(options);
    EXPECT_EQ(one->kv_bytes(), plan.layout.page_bytes * 4 + 6 * q_bytes);

    // A budget is divided in the proportion of one context.
    EngineOptions engine{.n_ctx = 256, .max_running = 8};
    const uint64_t slot = plan.states.slot_bytes, least = plan.layout.page_bytes * 4 + 6 * slot;
    engine.kv_bytes = least - 1;
    const auto refused = plan_cache_size(plan, engine, 0);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find("KV cache: expected at least"), std::string::npos);
    for (const uint64_t kv_bytes : {least, least + 1, 3 * least, 100 * least}) {
        engine.kv_bytes = kv_bytes;
        const CacheSize size = *plan_cache_size(plan, engine, 0);
        EXPECT_GE(size.n_pages, 4);
        EXPECT_GE(size.n_slots, 5);
        const uint64_t used = static_cast<uint64_t>(size.n_pages) * plan.layout.page_bytes +
                              static_cast<uint64_t>(size.n_slots + 1) * slot;
        EXPECT_LE(used, kv_bytes);
        EXPECT_GT(used + plan.layout.page_bytes, kv_bytes);
    }
    engine.kv_bytes = 0;
    EXPECT_EQ(plan_cache_size(plan, engine, 0)->n_slots, 40);
    EXPECT_EQ(plan_cache_size(plan, engine, 1)->n_slots, 5);
}

}  // namespace
}  // namespace tessera::engine
