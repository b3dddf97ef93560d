// What Flux says of objects: by its rules of status, and by the expressions of a Kustomization, for
// which Flux has an evaluator. The first argument is the file of the Kustomization, the others have
// one object each; one line for each of these: status by the rules, tab, status by the expressions.
// `Unknown` is what Flux makes of an expression that can't be evaluated: it waits.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

type kustomization struct {
	Spec struct {
		HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
	} `json:"spec"`
}

func read(path string, into any) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		log.Fatalf("%s: %v", path, err)
	}
}

// The object of a file, with whole numbers as such: the rules refuse others.
func objectOf(path string) *unstructured.Unstructured {
	text, err := os.ReadFile(path)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	object := &unstructured.Unstructured{}
	if err == nil {
		err = object.UnmarshalJSON(text)
	}
	if err != nil {
		log.Fatalf("%s: %v", path, err)
	}
	return object
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: kstatus KUSTOMIZATION OBJECT...")
	}
	var asked kustomization
	read(os.Args[1], &asked)
	if len(asked.Spec.HealthCheckExprs) != 1 {
		log.Fatalf("%s: one entry of healthCheckExprs is expected", os.Args[1])
	}
	expressions, err := cel.NewStatusEvaluator(&asked.Spec.HealthCheckExprs[0].HealthCheckExpressions)
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range os.Args[2:] {
		object := objectOf(path)
		rules, err := status.Compute(object)
		if err != nil {
			log.Fatalf("%s: %v", path, err)
		}
		expressed := status.UnknownStatus
		if result, err := expressions.Evaluate(context.Background(), object); err == nil {
			expressed = result.Status
		}
		fmt.Printf("%s\t%s\n", rules.Status, expressed)
	}
}
