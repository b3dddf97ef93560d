package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/filterprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/transformprocessor"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// The rules of a question or case.
type rules struct {
	Context    string   `json:"context,omitempty"`
	ErrorMode  string   `json:"error_mode,omitempty"`
	Statements []string `json:"statements,omitempty"`
	Conditions []string `json:"conditions,omitempty"`
}

type question struct {
	Signal string `json:"signal"`
	rules
	Request []byte `json:"request"`
}

type answer struct {
	Error     string  `json:"error,omitempty"`
	Refused   string  `json:"refused,omitempty"`
	Request   *[]byte `json:"request,omitempty"`
	Unchanged bool    `json:"unchanged,omitempty"`
	Dropped   int     `json:"dropped,omitempty"`
	Failed    int     `json:"failed,omitempty"`
}

type ruleCase struct {
	rules
	Note   string `json:"note,omitempty"`
	Answer answer `json:"answer"`
}

// Cases of one request.
type group struct {
	Signal  string     `json:"signal"`
	Request []byte     `json:"request"`
	Cases   []ruleCase `json:"cases"`
}

// Parts of messages that differ from run to run.
var randomText = regexp.MustCompile(`(one of|options are): .*`)

// Bytes of a message in a case.
const messageBytesMax = 160

// answerGroup fills in the answers of a group's cases.
func answerGroup(cases group) group {
	before, _, err := sorted(cases.Signal, cases.Request, "")
	check(err)
	for i := range cases.Cases {
		one := &cases.Cases[i]
		found := answerQuestion(question{cases.Signal, one.rules, cases.Request})
		if found.Request != nil && bytes.Equal(*found.Request, before) {
			found.Request, found.Unchanged = nil, true
		}
		found.Error, found.Refused = short(found.Error), short(found.Refused)
		one.Answer = found
	}
	return cases
}

func short(message string) string {
	message = randomText.ReplaceAllString(message, "$1 ...")
	if len(message) > messageBytesMax {
		message = strings.ToValidUTF8(message[:messageBytesMax], "") + " ..."
	}
	return message
}

// answerQuestion runs the processors; a panic of theirs is an answer too.
func answerQuestion(next question) (found answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			found = answer{Refused: fmt.Sprintf("panic: %v", panicked)}
		}
	}()
	_, before, err := sorted(next.Signal, next.Request, next.Context)
	if err != nil {
		return answer{Error: "request: " + err.Error()}
	}
	request, failed := next.Request, 0
	for _, step := range []struct {
		factory processor.Factory
		key     string
		texts   []string
	}{
		{transformprocessor.NewFactory(), "statements", next.Statements},
		{filterprocessor.NewFactory(), "conditions", next.Conditions},
	} {
		if len(step.texts) == 0 {
			continue
		}
		core, log := observer.New(zapcore.WarnLevel)
		config := settings(next, step.key, step.texts)
		request, err = process(step.factory, config, next.Signal, request, zap.New(core))
		if compile := (compileError{}); errors.As(err, &compile) {
			return answer{Error: compile.Error()}
		} else if err != nil {
			return answer{Refused: err.Error()}
		}
		for _, entry := range log.All() {
			if strings.HasPrefix(entry.Message, "failed to e") {
				failed++
			}
		}
	}
	result, after, err := sorted(next.Signal, request, next.Context)
	if err != nil {
		return answer{Error: "result: " + err.Error()}
	}
	return answer{Request: &result, Dropped: before - after, Failed: failed}
}

// settings gives a processor's section of a Collector's configuration.
func settings(next question, key string, texts []string) map[string]any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	section := map[string]any{key: list}
	if next.Context != "" {
		section["context"] = next.Context
	}
	mode := next.ErrorMode
	// Failures are counted in the log, which has none of them in the mode silent.
	if mode == "" || mode == "silent" {
		mode = "ignore"
	}
	signal := strings.TrimSuffix(next.Signal, "s")
	return map[string]any{"error_mode": mode, signal + "_" + key: []any{section}}
}

type compileError struct{ error }

// process makes a processor and returns what it passes on of a request.
func process(
	factory processor.Factory, settings map[string]any, signal string, request []byte, log *zap.Logger,
) ([]byte, error) {
	config := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(settings).Unmarshal(&config); err != nil {
		return nil, compileError{err}
	}
	if checked, ok := config.(interface{ Validate() error }); ok {
		if err := checked.Validate(); err != nil {
			return nil, compileError{err}
		}
	}
	set := processortest.NewNopSettings(factory.Type())
	set.Logger = log
	return consume(context.Background(), factory, set, config, signal, request)
}
