package main

import (
	"embed"
	"math/rand"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// A case a line: statements separated by " ;; ", then " ## " and a note where another
// implementation may choose another answer:
//
//   - "platform": what Go leaves to the processor; the answer is amd64's.
//   - "order after delete_key": the Collector moves the last key to the deleted one.
//   - "duplicate keys": the Collector reads and deletes the first of them.
//   - "self": a map is copied into itself while it is written.
//   - "list errors": of a list's values that can't be stored only the last is reported.
//   - "failed key": a key whose function fails is lost.
//   - "multibyte glob": `?` and sets in globs miss characters of several bytes.
//
//go:embed cases/*.txt
var caseFiles embed.FS

// stored reads a file of statements.
func stored(context, file string) []ruleCase {
	return wrapped(context, "", file, "")
}

// wrapped reads a file of parts of statements: each line stands between two texts.
func wrapped(context, before, file, after string) []ruleCase {
	text, err := caseFiles.ReadFile("cases/" + file + ".txt")
	check(err)
	cases := []ruleCase{}
	for line := range strings.Lines(string(text)) {
		line, note, _ := strings.Cut(strings.TrimRight(line, "\n"), " ## ")
		statements := strings.Split(before+line+after, " ;; ")
		cases = append(cases, ruleCase{rules{Context: context, Statements: statements}, note, answer{}})
	}
	return cases
}

// dropping reads a file of conditions.
func dropping(context, file string) []ruleCase {
	cases := stored(context, file)
	for i := range cases {
		cases[i].Conditions, cases[i].Statements = cases[i].Statements, nil
	}
	return cases
}

// storedCases has the cases of all files, by request.
func storedCases() []group {
	full := logRequest(func(record plog.LogRecord) {
		fillSample(record.Attributes())
		record.Body().SetStr("user=ann pw=x1 größe")
	})
	groups := []group{
		{"logs", full, wrapped("log", `set(attributes["r"], `, "expressions", ")")},
		{"logs", full, wrapped("log", `set(attributes["r"], true) where `, "conditions", "")},
		{"logs", full, stored("log", "log")},
		{"logs", full, syntaxCases()},
		{"logs", full, modeCases()},
		{"traces", traceRequest(), traceCases()},
		{"metrics", metricRequest(), metricCases()},
		{"logs", duplicateRequest(), duplicateCases()},
	}
	for _, fill := range []func(pcommon.Value){
		func(body pcommon.Value) {},
		func(body pcommon.Value) { fillSample(body.SetEmptyMap()) },
		func(body pcommon.Value) { body.SetInt(5) },
		func(body pcommon.Value) { body.SetEmptyBytes().FromRaw([]byte("ab<")) },
		func(body pcommon.Value) { body.SetDouble(0.1) },
		func(body pcommon.Value) {
			list := body.SetEmptySlice()
			list.AppendEmpty().SetStr("a")
			list.AppendEmpty().SetEmptyMap().PutStr("k", "<v>")
		},
	} {
		request := logRequest(func(record plog.LogRecord) { fill(record.Body()) })
		groups = append(groups, group{"logs", request, stored("log", "body")})
	}
	return groups
}

// syntaxCases ends with texts that a line of a file can't hold.
func syntaxCases() []ruleCase {
	cases := stored("log", "syntax")
	for _, text := range []string{
		"set(attributes[\"line\nbreak\"], 1)", "set(attributes[\"a\"],\n\t1)\n", "", " ",
		"\uFEFFset(attributes[\"a\"], 1)",
	} {
		one := rules{Context: "log", Statements: []string{text}}
		cases = append(cases, ruleCase{one, "", answer{}})
	}
	return cases
}

// modeCases has failing statements and conditions in each mode.
func modeCases() []ruleCase {
	cases := []ruleCase{}
	for _, mode := range []string{"ignore", "silent", "propagate"} {
		failing := append(stored("log", "error_modes"), dropping("log", "drop_error_modes")...)
		for _, one := range failing {
			one.ErrorMode = mode
			cases = append(cases, one)
		}
	}
	return cases
}

func traceCases() []ruleCase {
	cases := []ruleCase{}
	for _, context := range []string{"span", "spanevent", "resource", "scope"} {
		cases = append(cases, stored(context, context)...)
		cases = append(cases, dropping(context, "drop_"+context)...)
	}
	return cases
}

func metricCases() []ruleCase {
	cases := []ruleCase{}
	for _, context := range []string{"metric", "datapoint"} {
		cases = append(cases, stored(context, context)...)
		cases = append(cases, dropping(context, "drop_"+context)...)
	}
	return cases
}

func duplicateCases() []ruleCase {
	cases := stored("log", "duplicate_keys")
	for i := range cases {
		cases[i].Note = "duplicate keys"
	}
	return cases
}

// fixedGenerator makes the same values in every run.
func fixedGenerator() generator { return generator{rand.New(rand.NewSource(48))} }
