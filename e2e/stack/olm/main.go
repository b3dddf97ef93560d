// What Operator Lifecycle Manager's own checks say of a bundle, in a folder with manifests and metadata:
// those of its form and content that catalogs are made with, those that OperatorHub asks for, and whether
// its ClusterServiceVersion has a field that the type doesn't know. A line for each error and warning;
// nothing, and success, if there is none. The arguments are the folder and the version of Kubernetes whose
// removed APIs count.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/operator-registry/pkg/lib/bundle"
	"github.com/sirupsen/logrus"
	"sigs.k8s.io/yaml"
)

// Form and content, as a catalog is made: the kinds that are installed, the annotations.
func asCatalogs(folder string) (problems []error) {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	check := bundle.NewImageValidator(nil, logrus.NewEntry(quiet))
	for _, err := range []error{
		check.ValidateBundleFormat(folder),
		check.ValidateBundleContent(filepath.Join(folder, bundle.ManifestsDir)),
	} {
		if err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// The checks of a whole bundle, warnings among them.
func asOperatorHub(folder, kubernetes string) (problems []error) {
	read, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		return []error{err}
	}
	validators := validation.DefaultBundleValidators.WithValidators(
		validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator,
		validation.ObjectValidator,
		validation.AlphaDeprecatedAPIsValidator,
		validation.GoodPracticesValidator,
	)
	objects := append(read.ObjectsToValidate(), map[string]string{"k8s-version": kubernetes})
	for _, result := range validators.Validate(objects...) {
		for _, said := range append(result.Errors, result.Warnings...) {
			problems = append(problems, said)
		}
	}
	return problems
}

// Fields that the type doesn't know.
func asTyped(folder string) (problems []error) {
	found, err := filepath.Glob(filepath.Join(folder, bundle.ManifestsDir, "*.clusterserviceversion.yaml"))
	if err != nil || len(found) != 1 {
		return []error{fmt.Errorf("one file *.clusterserviceversion.yaml is expected, not %d", len(found))}
	}
	text, err := os.ReadFile(found[0])
	if err == nil {
		err = yaml.UnmarshalStrict(text, &v1alpha1.ClusterServiceVersion{})
	}
	if err != nil {
		return []error{fmt.Errorf("%s: %w", filepath.Base(found[0]), err)}
	}
	return nil
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: olm-check FOLDER KUBERNETES-VERSION")
	}
	folder, kubernetes := os.Args[1], os.Args[2]
	problems := append(asCatalogs(folder), asOperatorHub(folder, kubernetes)...)
	problems = append(problems, asTyped(folder)...)
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}
