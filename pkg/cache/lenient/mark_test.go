package lenient_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/cache/lenient"
)

func TestMarkOfUserIsIgnored(t *testing.T) {
	for name, value := range map[string]string{
		"a mark without a token": `{"reason":"Mine","cause":"Look elsewhere."}`,
		"a mark with any token":  `{"reason":"Mine","cause":"Look elsewhere.","token":"a"}`,
		"no mark":                `{`,
	} {
		t.Run(name, func(t *testing.T) {
			object := &metav1.ObjectMeta{Annotations: map[string]string{lenient.MarkAnnotation: value}}
			if mark := lenient.MarkOn(object); mark != nil {
				t.Errorf("the object is marked: %v", mark)
			}
			want := lenient.Mark{Reason: lenient.ReasonUnreadable, Cause: "broken", StatusLost: true}
			if err := want.SetOn(object); err != nil {
				t.Fatal(err)
			}
			if mark := lenient.MarkOn(object); mark == nil || *mark != want {
				t.Errorf("the mark of the cache is %v", mark)
			}
		})
	}
}
