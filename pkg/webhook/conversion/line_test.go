package conversion

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var quoted = []struct {
	name  string
	words []string
	want  string
}{
	{"no words make an empty line", nil, ""},
	{"plain words stay bare", []string{"ls", "-l", "/tmp/a.b", "a=b,c:d@e%f+g"}, "ls -l /tmp/a.b a=b,c:d@e%f+g"},
	{"an empty word is a pair of quotes", []string{"echo", ""}, "echo ''"},
	{"blanks are quoted", []string{"echo", "a b", "c\td", "e\nf"}, "echo 'a b' 'c\td' 'e\nf'"},
	{"a quote ends the quotes for a moment", []string{"echo", "it's"}, `echo 'it'\''s'`},
	{"quotes alone", []string{"echo", "''"}, `echo ''\'''\'''`},
	{
		"what a shell would expand is quoted", []string{"echo", "$HOME", "~", "*", "`a`", "{a,b}", "a\\b", "#", "!"},
		"echo '$HOME' '~' '*' '`a`' '{a,b}' 'a\\b' '#' '!'",
	},
	{
		"what a shell would act on is quoted", []string{
			"echo", "a;b", "a&b", "a|b", ">a", "(", "\"",
		}, `echo 'a;b' 'a&b' 'a|b' '>a' '(' '"'`,
	},
	{"other scripts are quoted", []string{"echo", "héllo"}, "echo 'héllo'"},
	{"a command that looks like an assignment is quoted", []string{"a=b", "c=d"}, "'a=b' c=d"},
	{"a command that is a reserved word is quoted", []string{"if", "if"}, "'if' if"},
}

func TestShellParsesQuotedLineIntoSameWords(t *testing.T) {
	for _, tt := range quoted {
		t.Run(tt.name, func(t *testing.T) {
			line := quote(tt.words)
			if diff := cmp.Diff(tt.want, line); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			out, err := exec.Command("/bin/sh", "-c", "set -- "+line+"\n"+`for word; do printf '%s\0' "$word"; done`).Output()
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			for _, word := range tt.words {
				want += word + "\x00"
			}
			// Without words, set prints the shell's variables.
			if diff := cmp.Diff(want, string(out)); len(tt.words) > 0 && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
