// Ottl runs OTTL statements and conditions with the OpenTelemetry Collector's own transform and
// filter processors, built from their Go modules.
//
//	ottl < questions.jsonl > answers.jsonl
//	ottl COUNT SEED > cases.jsonl
//
// The cases that `make test` has are those of `ottl 2000 48`, packed with `gzip -9n`.
//
// A question is an object, one a line:
//
//	{"signal": "logs|traces|metrics",
//	 "context": "log|span|spanevent|metric|datapoint|resource|scope",
//	 "error_mode": "ignore|silent|propagate", "statements": [...], "conditions": [...],
//	 "request": base64 of an OTLP export request}
//
// Statements are those of the transform processor and run first. Conditions are those of the filter
// processor, which drops what they match. Without a context the processors infer it. The answer is
// one of
//
//	{"error": "..."}                                does not compile
//	{"refused": "..."}                              a record failed in the mode propagate
//	{"request": base64, "dropped": n, "failed": n}
//
// The request has every map sorted by key, since maps that the Collector makes are in random order;
// a map with duplicate keys keeps its order. It is empty if every record was dropped. `dropped`
// counts log records, spans and data points, or span events in their own context. `failed` counts
// statements and conditions that failed on a record, also in the mode silent.
//
// With COUNT and SEED it prints the cases of the folder `cases` and COUNT random ones, grouped by
// request, one request a line:
//
//	{"signal": ..., "request": base64, "cases": [
//	 {"context", "error_mode", "statements" or "conditions", "note", "answer"}]}
//
// An answer in them has `"unchanged": true` in place of a request equal to the group's (with its
// maps sorted). A note marks a case where another implementation may choose another answer, see
// cases.go. Zero counts and empty texts are left out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Bytes of the longest question.
const lineBytesMax = 64 << 20

func main() {
	// A time without a zone is a local one.
	time.Local = time.UTC
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if len(os.Args) == 3 {
		count, err := strconv.Atoi(os.Args[1])
		check(err)
		seed, err := strconv.ParseInt(os.Args[2], 10, 64)
		check(err)
		for _, group := range storedCases() {
			check(encoder.Encode(answerGroup(group)))
		}
		randomCases(count, seed, func(group group) { check(encoder.Encode(answerGroup(group))) })
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		var next question
		check(json.Unmarshal(lines.Bytes(), &next))
		check(encoder.Encode(answerQuestion(next)))
		check(out.Flush())
	}
	check(lines.Err())
}

// check ends the program if there is an error.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "ottl:", err)
		os.Exit(1)
	}
}
