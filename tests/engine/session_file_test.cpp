// A saved and restored session continues with the same bits; any other file is refused and leaves the session
// empty.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/engine/support.h"
#include "tests/model/support.h"
#include "tests/support/temp_folder.h"

namespace tessera::engine {
namespace {

std::unique_ptr<Session> session_of(const std::shared_ptr<const Model>& model, ThreadPool& pool,
                                    Type kv_type = Type::F16, int64_t n_ctx = 256) {
    auto out = Session::create(model, pool, {.n_ctx = n_ctx, .k_type = kv_type, .v_type = kv_type});
    EXPECT_TRUE(out.has_value());
    return std::move(*out);
}

std::vector<int32_t> tokens_of_length(int32_t n) {
    std::vector<int32_t> out;
    for (int32_t i = 0; i < n; ++i) out.push_back(1 + i * 37 % 4000);
    return out;
}

std::vector<float> next_logits(Session& session) {
    EXPECT_TRUE(session.eval(std::vector<int32_t>{77}).has_value());
    return {session.logits().begin(), session.logits().end()};
}

TEST(SessionFile, goes_on_with_the_same_bits) {
    const test::TempFolder folder;
    ThreadPool pool(2);
    const auto model = *test::load_model(kModelPath, pool);
    for (const Type type : kKvTypes)
        for (const int32_t n : {1, 64, 130}) {
            const auto first = session_of(model, pool, type), second = session_of(model, pool, type);
            ASSERT_TRUE(first->eval(tokens_of_length(n)).has_value());
            ASSERT_TRUE(first->save(folder.at("saved")).has_value());
            ASSERT_TRUE(second->eval(tokens_of_length(7)).has_value());
            const auto restored = second->restore(folder.at("saved"));
            ASSERT_TRUE(restored.has_value()) << restored.error().message;
            EXPECT_EQ(second->n_tok(), n);
            EXPECT_TRUE(std::ranges::equal(second->tokens(), tokens_of_length(n)));
            EXPECT_TRUE(test::same_bits(next_logits(*first), next_logits(*second)));
        }
    const auto empty = session_of(model, pool);
    ASSERT_TRUE(empty->save(folder.at("empty")).has_value());
    EXPECT_TRUE(empty->restore(folder.at("empty")).has_value());
}

TEST(SessionFile, foreign_and_damaged_files_are_refused) {
    const test::TempFolder folder;
    ThreadPool pool(2);
    const auto model = *test::load_model(kModelPath, pool);
    const auto session = session_of(model, pool);
    ASSERT_TRUE(session->eval(tokens_of_length(20)).has_value());
    ASSERT_TRUE(session->save(folder.at("saved")).has_value());
    const auto refused = [&](Session& by, const std::string& path, const char* says) {
        const auto result = by.restore(path);
        ASSERT_FALSE(result.has_value()) << says;
        EXPECT_NE(result.error().message.find(says), std::string::npos) << result.error().message;
        EXPECT_EQ(by.n_tok(), 0);
    };
    refused(*session_of(model, pool, Type::Q8_0), folder.at("saved"),
            "K cache type: expected q8_0, found f16");
    refused(*session_of(model, pool, Type::F16, 16), folder.at("saved"), "at most 16 tokens, found 20");
    refused(*session, folder.at("nothing"), "nothing");
    refused(*session, kModelPath, "saved session");

    std::ifstream in(folder.at("saved"), std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(in)), {});
    std::vector<size_t> cuts = {whole.size() - 1, whole.size() - 8, whole.size() / 2};
    for (size_t n = 1; n < 140; ++n) cuts.push_back(n);
    for (const size_t n : cuts) refused(*session, folder.write("cut", whole.substr(0, n)), "cut");
    for (const size_t at : {size_t{8}, size_t{17}, size_t{24}, size_t{31}, size_t{41}, size_t{119},
                            whole.size() / 3, whole.size() - 1}) {
        std::string hurt = whole;
        hurt[at] = static_cast<char>(hurt[at] ^ 0x40);
        refused(*session, folder.write("hurt", hurt), "hurt");
    }
    EXPECT_TRUE(session->restore(folder.at("saved")).has_value());
    EXPECT_FALSE(session->save(folder.at("no/such/folder")).has_value());
}

TEST(SessionFile, another_models_is_refused_a_packed_one_is_not_another) {
    const test::TempFolder folder;
    ThreadPool pool(2);
    const auto llama = *test::load_model(test::model_file("llama"), pool);
    const auto floats = *test::load_model(test::model_file("llama"), pool, "", false);
    const auto other = *test::load_model(test::model_file("llama3"), pool);
    const auto session = session_of(llama, pool);
    ASSERT_TRUE(session->eval(std::vector<int32_t>{1, 5, 300}).has_value());
    ASSERT_TRUE(session->save(folder.at("saved")).has_value());
    EXPECT_TRUE(session_of(floats, pool)->restore(folder.at("saved")).has_value());
    const auto refused = session_of(other, pool)->restore(folder.at("saved"));
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find("fingerprint"), std::string::npos);
}

TEST(Session, SyncKeepsTheCommonBeginning) {
    ThreadPool pool(2);
    const auto model = *test::load_model(kModelPath, pool);
    const auto kept = session_of(model, pool), fresh = session_of(model, pool);
    std::vector<int32_t> text = tokens_of_length(50);
    EXPECT_EQ(*kept->sync(text), 0);
    text.resize(40);
    text.push_back(9);
    EXPECT_EQ(*kept->sync(text), 40);
    EXPECT_EQ(*kept->sync(text), 40);  // the last token again, for its logits
    ASSERT_TRUE(fresh->eval(text).has_value());
    EXPECT_TRUE(test::same_bits({kept->logits().begin(), kept->logits().end()},
                                {fresh->logits().begin(), fresh->logits().end()}));
    EXPECT_FALSE(kept->sync({}).has_value());
}

}  // namespace
}  // namespace tessera::engine
