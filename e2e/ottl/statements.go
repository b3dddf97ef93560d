package main

import (
	"math/rand"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Cases of one request.
const casesOfRequest = 10

type writer struct {
	generator
	context string
	paths   paths
	// Some values are of another kind on purpose.
	wrong bool
}

// randomCases makes cases by chance, the same for the same seed.
func randomCases(count int, seed int64, emit func(group)) {
	g := generator{rand.New(rand.NewSource(seed))}
	made := map[string]int{}
	for done := 0; done < count; {
		chosen, percent := weights[0], g.Intn(100)
		for _, one := range weights {
			if chosen = one; percent < one.percent {
				break
			}
			percent -= one.percent
		}
		next := group{Signal: chosen.signal}
		switch chosen.signal {
		case "logs":
			next.Request = g.logs()
		case "traces":
			next.Request = g.traces()
		default:
			next.Request = g.metrics()
		}
		for range min(casesOfRequest, count-done) {
			w := writer{g, chosen.context, contexts[chosen.context], g.chance(20)}
			one := w.ruleCase(made)
			for slices.ContainsFunc(one.Statements, copiesItself) {
				one = w.ruleCase(made)
			}
			next.Cases = append(next.Cases, one)
			done++
		}
		emit(next)
	}
}

func (w writer) ruleCase(made map[string]int) ruleCase {
	one := ruleCase{rules: rules{Context: w.context}}
	switch mode := w.Intn(100); {
	case mode < 10:
		one.ErrorMode = "propagate"
	case mode < 16:
		one.ErrorMode = "silent"
	default:
		one.ErrorMode = "ignore"
	}
	if w.chance(12) {
		for range 1 + w.Intn(2) {
			one.Conditions = append(one.Conditions, w.condition(2))
		}
		return one
	}
	for range 1 + w.Intn(5)/2 {
		made["editor"]++
		editor := editors[made["editor"]%len(editors)]
		if ordered[editor] {
			one.Statements = []string{w.statement(editor, made)}
			return one
		}
		one.Statements = append(one.Statements, w.statement(editor, made))
	}
	return one
}

func (w writer) statement(editor string, made map[string]int) string {
	var arguments []string
	switch {
	case editor == "set":
		made["converter"]++
		converter := converters[made["converter"]%len(converters)]
		value := w.converter(converter, 2)
		arguments = []string{w.target(converter), value}
	case strings.HasPrefix(editor, "replace_"):
		arguments = w.replacing(editor)
	case editor == "append":
		arguments = []string{w.attribute(pick(w.generator, allKeys)), w.any(1)}
		if w.chance(50) {
			arguments[1] = "values=[" + arguments[1] + ", " + w.any(1) + "]"
		}
	default:
		arguments = append([]string{w.someMap()}, w.mapping(editor)...)
	}
	text := editor + "(" + strings.Join(arguments, ", ") + ")"
	if w.chance(45) {
		text += " where " + w.condition(2)
	}
	return text
}

// replacing gives the arguments of the editors that replace text.
func (w writer) replacing(editor string) []string {
	pattern, glob := quote(pick(w.generator, patterns)), quote(pick(w.generator, globs))
	replacement := quote(pick(w.generator, replacements))
	switch editor {
	case "replace_match":
		return []string{w.textPath(), glob, w.text(1)}
	case "replace_all_matches":
		return []string{w.someMap(), glob, w.text(1)}
	case "replace_all_patterns":
		mode := pick(w.generator, []string{"key", "value", "value"})
		return []string{w.someMap(), quote(mode), pattern, replacement}
	}
	arguments := []string{w.textPath(), pattern, replacement}
	if w.chance(15) {
		arguments = append(arguments, "SHA256")
	}
	return arguments
}

// mapping gives the arguments after the map of the editors that change one.
func (w writer) mapping(editor string) []string {
	keys := func(most int) string {
		list := []string{}
		for range w.Intn(most + 1) {
			list = append(list, w.key())
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	switch editor {
	case "delete_key":
		return []string{w.key()}
	case "delete_matching_keys", "keep_matching_keys":
		return []string{quote(pick(w.generator, patterns))}
	case "keep_keys":
		return []string{keys(4)}
	case "truncate_all":
		return []string{strconv.Itoa(w.Intn(8))}
	case "limit":
		limit := w.Intn(6)
		return []string{strconv.Itoa(limit), keys(limit)}
	case "merge_maps":
		strategy := quote(pick(w.generator, []string{"insert", "update", "upsert"}))
		return []string{w.mapValue(1), strategy}
	}
	// What is left is flatten.
	arguments := []string{}
	if w.chance(50) {
		arguments = append(arguments, quote(pick(w.generator, []string{"", "p", "x.y"})))
		if w.chance(50) {
			arguments = append(arguments, strconv.Itoa(1+w.Intn(3)))
		}
	}
	if w.chance(15) {
		arguments = append(arguments, "resolve_conflicts=true")
	}
	return arguments
}

// A path: names with dots, then keys.
var pathText = regexp.MustCompile(`[a-z_]+(\.[a-z_]+)*(\["[^"]*"\]|\[[0-9]\])*`)

// copiesItself holds for statements that write a map which holds their target or is in it, where
// the Collector reads what it has half written.
func copiesItself(statement string) bool {
	call := strings.SplitN(statement, " where ", 2)[0]
	editor, arguments, _ := strings.Cut(call, "(")
	found := pathText.FindAllStringIndex(arguments, -1)
	if len(found) == 0 || editor != "set" && editor != "merge_maps" {
		return false
	}
	bare := func(at []int) string {
		path := arguments[at[0]:at[1]]
		for name := range contexts {
			if name != "resource" && name != "scope" {
				path = strings.TrimPrefix(path, name+".")
			}
		}
		return path
	}
	target := bare(found[0])
	for _, at := range found[1:] {
		source := bare(at)
		if editor == "set" && source == target {
			continue
		}
		inside := editor == "merge_maps" && strings.HasPrefix(source, target)
		if strings.HasPrefix(target, source) || inside {
			return true
		}
	}
	return false
}
