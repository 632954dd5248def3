#pragma once
// Reference data of the template tests.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "src/text/jinja/json.h"
#include "src/text/jinja/template.h"
#include "tests/support/data.h"

namespace tessera::test {

inline jinja::Value read_json(const std::string& relative) {
    const auto value = jinja::parse_json(read_file(shared(relative)));
    if (!value) ADD_FAILURE() << relative << ": " << value.error().message;
    return value.value_or(jinja::Value::dict({}));
}

inline std::vector<std::filesystem::path> files_in(const std::string& relative, const std::string& suffix) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(shared(relative)))
        if (entry.path().extension() == suffix) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

inline std::vector<std::filesystem::path> golden_templates() { return files_in("golden/templates", ".json"); }

/// The variables of a case as the reference defined them.
inline jinja::Value golden_context(const jinja::Value& suite, const jinja::Value& input) {
    jinja::Value::Pairs pairs;
    for (const char* name : {"messages", "tools", "documents", "add_generation_prompt"})
        pairs.emplace_back(jinja::Value::text(name), *input.find(name));
    for (const char* name : {"bos_token", "eos_token"})
        if (suite.find(name)->is_text()) pairs.emplace_back(jinja::Value::text(name), *suite.find(name));
    for (const auto& entry : input.find("kwargs")->as_dict().pairs()) pairs.push_back(entry);
    return jinja::Value::dict(std::move(pairs));
}

}  // namespace tessera::test
